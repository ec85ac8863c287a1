"""What administrators ask of a cluster. Each family of calls has a file; its functions take the
`router` of a `Client`:

    async with Client(options) as client:
        found = await groups.list_groups(client.router)
"""
