"""Who a client is, and what it may do.

Read in this order:

    authorizer         rules in, yes or no out; pure
    rights             the same for one caller, and what refusing part of a request looks like
    apis               for every API: which right it needs, and how its lack is reported
    guard              puts the table before the handlers
    acls               rules, as administrators see them
    scram              passwords and RFC 5802; pure
    sasl, users_api    the same on a connection, and for administrators
    principals         from a certificate's name to a principal
    access             all of it, put together
"""
