"""Topics' tables: their open ends, their manifests, and their Iceberg tables."""
