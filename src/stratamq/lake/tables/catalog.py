"""The Iceberg catalog that a node's settings name."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog

from stratamq.lake.tables.blobs import Blobs, io_properties
from stratamq.lake.tables.errors import as_table_error
from stratamq.model.errors import InvalidConfig

NAME = "stratamq"
OFF = "none"
CHATTY = ("pyiceberg.io.pyarrow",)
"""Says at every file which columns have no statistics, as we want it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogOptions:
    """`uri` is empty for an SQLite file at `path`, or that of a REST catalog. What else a REST
    catalog needs (a token, say) comes the way pyiceberg has for it: the environment variables
    `PYICEBERG_CATALOG__STRATAMQ__…`, or its file. No secret is a setting of ours."""

    uri: str = ""
    path: Path
    warehouse: str = ""
    namespace: str = "stratamq"


def open_catalog(options: CatalogOptions, blobs: Blobs) -> Catalog:
    """A catalog whose tables lie in `blobs`. A REST catalog has to be up."""
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)
    if not options.uri:
        options.path.parent.mkdir(parents=True, exist_ok=True)
        address = f"sqlite:///{quote(str(options.path.absolute()))}"
        with as_table_error(str(options.path)):
            return SqlCatalog(NAME, uri=address, warehouse=blobs.url, **io_properties(blobs))
    if not options.uri.startswith(("http://", "https://")):
        raise InvalidConfig(
            f"lake.catalog.uri: {options.uri!r} is no address of a REST catalog (http:// or "
            f"https://), not {OFF!r}, and not empty"
        )
    more = {"warehouse": options.warehouse} if options.warehouse else {}
    with as_table_error(options.uri):
        return load_catalog(NAME, type="rest", uri=options.uri, **more, **io_properties(blobs))
