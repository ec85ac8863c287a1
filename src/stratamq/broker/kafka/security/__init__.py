"""Who somebody is, and what they may do.

Read in this order:

    authorizer       rules in, yes or no out; pure
    rights           the same for one caller
    verdicts         what refusing part of a request looks like
    on_*, table      for every API: which right it needs, and how its lack is told
    guard            puts the table before the handlers
    acl_filters, acl_api        rules, as administrators see them
    scram, passwords            RFC 5802; pure
    sasl, users_api             the same on a connection, and for administrators
    principals       from a certificate's name to a principal
    access           all of it, put together
"""
