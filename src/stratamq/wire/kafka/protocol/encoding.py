"""Writes the function that puts one message in one version into buffers.

Neighbouring fields of fixed width become one call of struct, arrays of fixed width among them: the
call is chosen by the arrays' lengths. Strings follow as parts of their own, and the parts are
joined once. Records are not copied: they are handed out between the joined parts.

In steps, the same code is a generator, as in `decoding`.
"""

from __future__ import annotations

import struct

from stratamq.wire.kafka.protocol import runtime
from stratamq.wire.kafka.protocol.decoding import default_text
from stratamq.wire.kafka.protocol.schema import (
    RECORDS,
    STRING,
    UUID,
    Array,
    FieldSpec,
    Fixed,
    Kind,
    MessageSpec,
    Sized,
)
from stratamq.wire.kafka.protocol.source import FunctionSource, stem

_NULLS = {"h": r"b'\xff\xff'", "i": r"b'\xff\xff\xff\xff'"}
_EMPTY_TAGS = "x"
"""In a run: the zero byte that says there are no tagged fields."""


def encoder_source(message: MessageSpec, version: int, *, steps: bool = False) -> FunctionSource:
    """`encode(m, head)`: a list of buffers, the first of which begins with `head`."""
    return _Encoder(message, version, steps).write(message)


class _Encoder:
    def __init__(self, message: MessageSpec, version: int, steps: bool) -> None:
        self._out = FunctionSource(message, version, steps=steps)
        self._out.namespace.update(
            varint=runtime.uvarints,
            RECORDS_COPIED_MAX=runtime.RECORDS_COPIED_MAX,
            UNSENDABLE=runtime.UNSENDABLE,
            unsendable=runtime.unsendable,
        )
        self._sink = "out"
        self._run: list[tuple[str, str]] = []
        """Codes and expressions; an array has the code of its elements with a `*` before it."""

    def write(self, message: MessageSpec) -> FunctionSource:
        out = self._out
        with out.block("def encode(m, head):"):
            out.begin_steps()
            out.line("done = []")
            out.line("out = [head]")
            out.line("put_out = out.append")
            with out.block("try:"):
                self._struct(message.type, "m")
                self._flush()
                out.line("done.append(b''.join(out))")
                out.line("return done")
            with out.block("except UNSENDABLE as error:"):
                out.line(f"raise unsendable({out.title!r}, error) from error")
        return out

    # -- parts -------------------------------------------------------------------------------------

    def _struct(self, struct_type: type, var: str) -> None:
        out = self._out
        for field in out.absent_fields(struct_type):
            if not field.ignorable:
                self._refuse(field, f"{var}.{field.name}")
        for field in out.plain_fields(struct_type):
            self._value(field.kind, f"{var}.{field.name}", out.version in field.nullable)
        if out.flexible:
            self._tags(out.tagged_fields(struct_type), var)

    def _refuse(self, field: FieldSpec, value: str) -> None:
        """A value that this version cannot carry, and that must not get lost."""
        reason = f"{field.name} is not in this version"
        self._out.line(f"if {_is_set(field, value)}: raise ValueError({reason!r})")

    def _value(self, kind: Kind, value: str, nullable: bool) -> None:
        match kind:
            case Fixed():
                if kind is UUID:  # struct would pad or cut in silence
                    self._out.line(f"if len({value}) != 16: raise ValueError('not a UUID')")
                self._run.append((kind.code, value))
            case Sized():
                self._sized(kind, value, nullable)
            case Array():
                self._array(kind, value, nullable)
            case _ if nullable:
                self._nullable_struct(kind, value)
            case _:
                var = self._out.fresh(stem(value))
                self._out.line(f"{var} = {value}")
                self._struct(kind, var)

    def _nullable_struct(self, kind: type, value: str) -> None:
        out = self._out
        var = out.fresh(stem(value))
        self._flush()
        out.line(f"{var} = {value}")
        with out.block(f"if {var} is None:"):
            self._put(r"b'\xff'")
        with out.block("else:"):
            self._put(r"b'\x01'")
            self._struct(kind, var)
            self._flush()

    def _sized(self, kind: Sized, value: str, nullable: bool) -> None:
        out = self._out
        data = out.fresh(stem(value))
        if not nullable:
            out.line(f"{data} = {value}{'.encode()' if kind is STRING else ''}")
            self._sized_parts(kind, data)
            return
        self._flush()
        out.line(f"{data} = {value}")
        with out.block(f"if {data} is None:"):
            self._put(self._null(kind.length_code))
        with out.block("else:"):
            if kind is STRING:
                out.line(f"{data} = {data}.encode()")
            self._sized_parts(kind, data)

    def _sized_parts(self, kind: Sized, data: str) -> None:
        self._length(kind.length_code, f"len({data})")
        self._flush()
        if kind is not RECORDS:
            self._put(data)
            return
        assert self._sink == "out", "records cannot be in a tagged field"
        with self._out.block(f"if len({data}) > RECORDS_COPIED_MAX:"):
            self._out.line(f"done += b''.join(out), {data}")
            self._out.line("out.clear()")
        with self._out.block("else:"):
            self._put(data)

    def _array(self, kind: Array, value: str, nullable: bool) -> None:
        out = self._out
        items = out.fresh(stem(value))
        if not nullable:
            out.line(f"{items} = {value}")
            self._elements(kind, items)
            return
        self._flush()
        out.line(f"{items} = {value}")
        with out.block(f"if {items} is None:"):
            self._put(self._null("i"))
        with out.block("else:"):
            self._elements(kind, items)
            self._flush()

    def _elements(self, kind: Array, items: str) -> None:
        if isinstance(kind.element, Fixed):
            self._run.append(("*" + kind.element.code, items))
            return
        item = self._out.fresh("item")
        self._length("i", f"len({items})")
        self._flush()
        with self._out.block(f"for {item} in {items}:"):
            if isinstance(kind.element, Sized):
                self._sized(kind.element, item, nullable=False)
            else:
                self._struct(kind.element, item)
            self._flush()
            # Thousands of small parts take several times the memory that they take joined.
            joined = ("done.append(b''.join(out))", "out.clear()") if self._sink == "out" else ()
            self._out.step(*joined)

    # -- tagged fields -----------------------------------------------------------------------------

    def _tags(self, known: list[FieldSpec], var: str) -> None:
        out = self._out
        if not known:
            self._run.append((_EMPTY_TAGS, ""))
            return
        self._flush()
        tags = out.fresh("tags")
        out.line(f"{tags} = []")
        for field in known:
            value = f"{var}.{field.name}"
            with out.block(f"if {_is_set(field, value)}:"):
                body = self._tag_body(field, value)
                tag = runtime.encode_uvarint(field.tag or 0)
                out.line(f"{tags} += {tag!r}, varint[len({body})], {body}")
        self._put(f"varint[len({tags}) // 3]")
        out.line(f"{self._sink} += {tags}")

    def _tag_body(self, field: FieldSpec, value: str) -> str:
        """Encode a tagged field by itself: its size goes before it."""
        out, around = self._out, self._sink
        self._sink = out.fresh("part")
        out.line(f"{self._sink} = []")
        out.line(f"put_{self._sink} = {self._sink}.append")
        self._value(field.kind, value, out.version in field.nullable)
        self._flush()
        body = out.fresh("body")
        out.line(f"{body} = b''.join({self._sink})")
        self._sink = around
        return body

    # -- runs of fixed width -----------------------------------------------------------------------

    def _put(self, expression: str) -> None:
        self._out.line(f"put_{self._sink}({expression})")

    def _null(self, length_code: str) -> str:
        return r"b'\x00'" if self._out.flexible else _NULLS[length_code]

    def _length(self, code: str, length: str) -> None:
        if self._out.flexible:
            self._flush()
            self._put(f"varint[{length} + 1]")
        else:
            self._run.append((code, length))

    def _flush(self) -> None:
        """Write the call that packs the pending run."""
        run, self._run = self._run, []
        if not run:
            return
        if all(code == _EMPTY_TAGS for code, _ in run):
            self._put(repr(bytes(len(run))))
        elif any(code.startswith("*") for code, _ in run):
            self._flush_arrays(run)
        else:
            codes = "".join(code for code, _ in run)
            values = ", ".join(value for _, value in run if value)
            self._put(f"{self._packer(codes)}({values})")

    def _packer(self, codes: str) -> str:
        name = "pack_" + codes.replace("?", "o")
        if name not in self._out.namespace:
            self._out.namespace[name] = struct.Struct(">" + codes).pack
        return name

    def _flush_arrays(self, run: list[tuple[str, str]]) -> None:
        template = ">"
        values: list[str] = []
        lengths: list[str] = []
        counts: list[int] = []
        compact = self._out.flexible
        for code, value in run:
            if not code.startswith("*"):
                template += code
                values += [value] if value else []
                continue
            length = self._out.fresh("n")
            self._out.line(f"{length} = len({value})")
            template += ("B{}" if compact else "i{}") + code[1:]
            counts.append(len(values) - len(lengths))
            values += [f"{length} + 1" if compact else length, f"*{value}"]
            lengths.append(length)
        packers = self._out.bind(
            self._out.fresh("packers"), runtime.Packers(template, counts, compact=compact)
        )
        self._put(f"{packers}[{', '.join(lengths)}]({', '.join(values)})")


def _is_set(field: FieldSpec, value: str) -> str:
    """An expression that is true when a value is not the default."""
    if field.default is None:
        return f"{value} is not None"
    if field.default == ():
        return f"{value} is None or len({value})"
    return f"{value} != {default_text(field)}"
