"""Builds the compiled kernels. Everything else is in pyproject.toml."""

from Cython.Build import cythonize
from setuptools import Extension, setup

KERNELS = {
    "stratamq.lake.parquet._columns": "src/stratamq/lake/parquet/_columns.pyx",
    "stratamq.log._entries": "src/stratamq/log/_entries.pyx",
    "stratamq.wire.kafka.records._kernel": "src/stratamq/wire/kafka/records/_kernel.pyx",
    "stratamq.wire.kafka.records._lz4": "src/stratamq/wire/kafka/records/_lz4.pyx",
}

setup(
    ext_modules=cythonize(
        [Extension(name, [path], extra_compile_args=["-O3"]) for name, path in KERNELS.items()],
        compiler_directives={"language_level": 3, "boundscheck": False, "wraparound": False},
    )
)
