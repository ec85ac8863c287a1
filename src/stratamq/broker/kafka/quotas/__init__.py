"""How much of the node a client may use.

windows    a rate over the last seconds, and how long to be quiet to come down to a limit; pure
lookup     whose limit counts for whom; pure
keeper     what everybody used, told to whoever is over
api        DescribeClientQuotas and AlterClientQuotas
"""
