"""Writes the function that reads one message in one version.

What it writes is straight-line code over `buf`, the whole frame as bytes; a message that holds
records is read from a view as well. Neighbouring fields of fixed width are read by one call of
struct, together with the length of what follows them. Reading past the end of `buf` shows itself
(IndexError, struct.error); every length and count is held against the bytes that are left before
anything is made from it, and `elements_left` bounds the elements of all arrays together.

In steps, the same code is a generator: it yields after every `STEP_ELEMENTS` elements, so that a
large message need not be read without a pause.
"""

from __future__ import annotations

import struct
from dataclasses import MISSING

from stratamq.wire.kafka.protocol import runtime
from stratamq.wire.kafka.protocol.errors import MalformedMessage
from stratamq.wire.kafka.protocol.schema import (
    BYTES,
    RECORDS,
    STRING,
    WIDTHS,
    Array,
    FieldSpec,
    Fixed,
    Kind,
    MessageSpec,
    Sized,
    fields_of,
)
from stratamq.wire.kafka.protocol.source import FunctionSource, stem

_HELPERS = {
    "new": object.__new__,
    "StructError": struct.error,
    "MalformedMessage": MalformedMessage,
    **{
        name: getattr(runtime, name)
        for name in (
            "uvarint_tail",
            "skip_tags",
            "tag_head",
            "bad_length",
            "bad_count",
            "bad_presence",
            "bad_tag_size",
            "trailing",
            "ended_early",
            "bad_text",
        )
    },
}


def decoder_source(
    message: MessageSpec, version: int, *, exact: bool = True, steps: bool = False
) -> FunctionSource:
    """`decode(buf, pos, elements_left)`: the message, and how many more elements it could have had.
    Unless `exact`, bytes after the message are left alone."""
    return _Decoder(message, version, steps).write(message, exact)


class _Decoder:
    def __init__(self, message: MessageSpec, version: int, steps: bool) -> None:
        self._out = FunctionSource(message, version, steps=steps)
        self._out.namespace.update(_HELPERS)
        self._viewed = holds_records(message.type)
        self._run: list[tuple[str, str]] = []
        """Codes and targets of fields that the next call of struct will read together."""

    def write(self, message: MessageSpec, exact: bool) -> FunctionSource:
        out = self._out
        with out.block("def decode(buf, pos, elements_left):"):
            out.line("size = len(buf)")
            out.begin_steps()
            if self._viewed:
                out.line("view = memoryview(buf)")
            with out.block("try:"):
                root = self._struct(message.type)
                self._flush()
                if exact:
                    out.line("if pos != size: raise trailing(pos, size)")
                out.line(f"return {root}, elements_left")
            with out.block("except (IndexError, StructError):"):
                out.line(f"raise ended_early({out.title!r}, pos) from None")
            with out.block("except UnicodeDecodeError:"):
                out.line(f"raise bad_text({out.title!r}, pos) from None")
            with out.block("except MalformedMessage as error:"):
                out.line(f"raise MalformedMessage(f'{out.title}: {{error}}') from None")
        return out

    # -- parts -------------------------------------------------------------------------------------

    def _struct(self, struct_type: type) -> str:
        """Read a struct into a new variable; its name."""
        out = self._out
        var = out.fresh("o")
        out.line(f"{var} = new({out.bind_type(struct_type)})")
        for field in out.plain_fields(struct_type):
            self._value(field.kind, f"{var}.{field.name}", out.version in field.nullable)
        for field in out.absent_fields(struct_type):
            out.line(f"{var}.{field.name} = {default_text(field)}")
        if out.flexible:
            self._tags(out.tagged_fields(struct_type), var)
        return var

    def _value(self, kind: Kind, target: str, nullable: bool) -> None:
        match kind:
            case Fixed():
                self._run.append((kind.code, target))
            case Sized():
                self._sized(kind, target, nullable)
            case Array():
                self._array(kind, target, nullable)
            case _ if nullable:
                self._nullable_struct(kind, target)
            case _:
                var = self._struct(kind)
                self._flush()
                self._out.line(f"{target} = {var}")

    def _nullable_struct(self, kind: type, target: str) -> None:
        out = self._out
        mark = out.fresh(f"has_{stem(target)}")
        self._run.append(("b", mark))
        self._flush()
        with out.block(f"if {mark} == 1:"):
            var = self._struct(kind)
            self._flush()
            out.line(f"{target} = {var}")
        out.line(f"elif {mark} == -1: {target} = None")
        out.line(f"else: raise bad_presence({mark}, pos)")

    def _sized(self, kind: Sized, target: str, nullable: bool) -> None:
        out = self._out
        length = self._length(kind.length_code, target, is_long=kind is RECORDS)
        end = out.fresh("end")
        if not nullable:
            out.line(f"{end} = pos + {length}")
            out.line(f"if not pos <= {end} <= size: raise bad_length({length}, pos)")
            self._slice(kind, target, end)
            return
        with out.block(f"if {length} >= 0:"):
            out.line(f"{end} = pos + {length}")
            out.line(f"if {end} > size: raise bad_length({length}, pos)")
            self._slice(kind, target, end)
        out.line(f"elif {length} == -1: {target} = None")
        out.line(f"else: raise bad_length({length}, pos)")

    def _slice(self, kind: Sized, target: str, end: str) -> None:
        part = f"buf[pos:{end}]"
        read = {
            STRING: f"str({part}, 'utf-8')" if self._viewed else f"{part}.decode()",
            BYTES: f"bytes({part})" if self._viewed else part,
            RECORDS: f"view[pos:{end}]",
        }[kind]
        self._out.line(f"{target} = {read}")
        self._out.line(f"pos = {end}")

    def _array(self, kind: Array, target: str, nullable: bool) -> None:
        out = self._out
        count = self._length("i", target)
        if not nullable:
            self._elements(kind, target, count)
            return
        with out.block(f"if {count} != -1:"):
            self._elements(kind, target, count)
        with out.block("else:"):
            out.line(f"{target} = None")

    def _elements(self, kind: Array, target: str, count: str) -> None:
        out, element = self._out, kind.element
        smallest = self._smallest(element)
        assert smallest > 0, "an element of no bytes would make its count meaningless"
        out.line(
            f"if not 0 <= {count} <= (size - pos) // {smallest}: raise bad_count({count}, pos)"
        )
        out.line(f"elements_left -= {count}")
        out.line(f"if elements_left < 0: raise bad_count({count}, pos)")
        if isinstance(element, Fixed):
            unpack = out.bind(f"unpack_{element.name}s", runtime.unpackers[element.code])
            out.line(f"{target} = list({unpack}[{count}](buf, pos))")
            out.line(f"pos += {count} * {element.width}")
            return
        items = out.fresh(stem(target))
        out.line(f"{target} = {items} = []")
        with out.block(f"for _ in range({count}):"):
            item = self._item(element)
            out.line(f"{items}.append({item})")
            out.step()

    def _item(self, element: Sized | type) -> str:
        if isinstance(element, Sized):
            item = self._out.fresh("item")
            self._sized(element, item, nullable=False)
        else:
            item = self._struct(element)
        self._flush()
        return item

    # -- tagged fields -----------------------------------------------------------------------------

    def _tags(self, known: list[FieldSpec], var: str) -> None:
        out = self._out
        for field in known:
            out.line(f"{var}.{field.name} = {default_text(field)}")
        tags = out.fresh("tags")
        self._run.append(("B", tags))
        self._flush()
        if not known:
            out.line(f"if {tags}: pos = skip_tags(buf, pos, {tags})")
            return
        with out.block(f"if {tags}:"):
            out.line(f"if {tags} > 127: {tags}, pos = uvarint_tail(buf, pos, {tags})")
            out.line(f"if {tags} > (size - pos) // 2: raise bad_count({tags}, pos)")
            tag, end = out.fresh("tag"), out.fresh("end")
            out.line(f"{tag} = -1")
            with out.block(f"for _ in range({tags}):"):
                out.line(f"{tag}, pos, {end} = tag_head(buf, pos, {tag})")
                self._tag_cases(known, var, tag, end)

    def _tag_cases(self, known: list[FieldSpec], var: str, tag: str, end: str) -> None:
        out = self._out
        for index, field in enumerate(known):
            with out.block(f"{'elif' if index else 'if'} {tag} == {field.tag}:"):
                self._value(field.kind, f"{var}.{field.name}", out.version in field.nullable)
                self._flush()
                out.line(f"if pos != {end}: raise bad_tag_size(pos, {end})")
        with out.block("else:"):
            out.line(f"pos = {end}")

    # -- runs of fixed width -----------------------------------------------------------------------

    def _length(self, code: str, target: str, *, is_long: bool = False) -> str:
        """Read a length or count into a new variable, -1 for null; its name. One that `is_long`
        takes two bytes as a rule."""
        out = self._out
        length = out.fresh(f"n_{stem(target)}")
        self._run.append(("B" if out.flexible else code, length))
        self._flush()
        if out.flexible:
            if is_long:
                with out.block(f"if {length} > 127 and buf[pos] < 128:"):
                    out.line(f"{length} += (buf[pos] << 7) - 128")
                    out.line("pos += 1")
            other = "elif" if is_long else "if"
            out.line(f"{other} {length} > 127: {length}, pos = uvarint_tail(buf, pos, {length})")
            out.line(f"{length} -= 1")
        return length

    def _flush(self) -> None:
        """Write the call that reads the pending run."""
        if not self._run:
            return
        codes = [code for code, _ in self._run]
        targets = ", ".join(target for _, target in self._run)
        width = sum(WIDTHS[code] for code in codes)
        if codes == ["B"]:
            self._out.line(f"{targets} = buf[pos]")
        else:
            unpack = self._unpack("".join(codes))
            comma = "," if len(codes) == 1 else ""
            self._out.line(f"{targets}{comma} = {unpack}(buf, pos)")
        self._out.line(f"pos += {width}")
        self._run.clear()

    def _unpack(self, codes: str) -> str:
        name = "unpack_" + codes.replace("?", "o")
        if name not in self._out.namespace:
            self._out.namespace[name] = struct.Struct(">" + codes).unpack_from
        return name

    def _smallest(self, kind: Kind) -> int:
        """The fewest bytes that a value can take."""
        out = self._out
        match kind:
            case Fixed():
                return kind.width
            case Sized():
                return 1 if out.flexible else WIDTHS[kind.length_code]
            case Array():
                return 1 if out.flexible else WIDTHS["i"]
        least = 1 if out.flexible else 0  # the count of tagged fields
        for field in out.plain_fields(kind):
            is_mark = isinstance(field.kind, type) and out.version in field.nullable
            least += 1 if is_mark else self._smallest(field.kind)
        return least


def default_text(field: FieldSpec) -> str:
    """The default as Python source."""
    assert field.default is not MISSING, f"{field.name} is not in all versions, and has no default"
    return "[]" if field.default == () else repr(field.default)


def holds_records(struct_type: type) -> bool:
    return any(
        field.kind == RECORDS
        or (isinstance(field.kind, type) and holds_records(field.kind))
        or (
            isinstance(field.kind, Array)
            and isinstance(field.kind.element, type)
            and holds_records(field.kind.element)
        )
        for field in fields_of(struct_type)
    )
