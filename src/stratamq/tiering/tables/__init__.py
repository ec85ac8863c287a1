"""Topics' tables kept current: their open ends, their manifests, and their Iceberg tables."""
