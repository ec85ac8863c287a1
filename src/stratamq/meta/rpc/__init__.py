"""The Meta Service over gRPC: `meta.proto` says what is called, `server` serves it, `client` is a
MetaClient that calls it."""
