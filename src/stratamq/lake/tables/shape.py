"""The columns of a topic's Iceberg table. They match those of its files by name: a file has no
field ids, since the ids of typed columns are the table's to give."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Transaction
from pyiceberg.transforms import IdentityTransform

from stratamq.lake.declared import Column, parse_columns
from stratamq.lake.parquet.schema import arrow_schema

PARTITION = "partition"
NAMES = "schema.name-mapping.default"

PROPERTIES = {
    "commit.retry.num-retries": "0",  # we look at the table again instead
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}

_ARROW = {
    "bool": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "date": pa.date32(),
}


def table_schema(columns: str) -> pa.Schema:
    """Return Arrow's schema: the columns of all files, and `data` if there are typed ones."""
    typed = parse_columns(columns)
    return arrow_schema(_struct(typed) if typed else None)


def _struct(columns: tuple[Column, ...]) -> pa.DataType:
    return pa.struct(
        pa.field(one.name, _struct(one.children) if one.children else _ARROW[one.kind])
        for one in columns
    )


def new_schema(columns: str) -> Schema:
    """Return Iceberg's schema, for a new table."""
    return assign_fresh_schema_ids(Catalog._convert_schema_if_needed(table_schema(columns)))


def partition_spec(schema: Schema) -> PartitionSpec:
    """Files hold one partition of the topic each, and are found by it."""
    source = schema.find_field(PARTITION).field_id
    field = PartitionField(source, PARTITION_FIELD_ID_START, IdentityTransform(), PARTITION)
    return PartitionSpec(field)


def evolve(transaction: Transaction, columns: str) -> bool:
    """Add the columns that the table has not got; whether there were any. None is ever taken away:
    older files have it."""
    metadata = transaction.table_metadata
    added = bool(_paths(parse_columns(columns)) - set(metadata.schema().column_names))
    if added:
        with transaction.update_schema() as update:
            update.union_by_name(table_schema(columns))
    if added or NAMES not in metadata.properties:
        names = transaction.table_metadata.schema().name_mapping.model_dump_json()
        transaction.set_properties({NAMES: names})
        return True
    return False


def _paths(columns: tuple[Column, ...], prefix: str = "data") -> set[str]:
    found = {f"{prefix}.{one.name}" for one in columns}
    return found.union(*(_paths(one.children, f"{prefix}.{one.name}") for one in columns))
