"""`make demo`: coffee machines and an order service, one topic store for both, tables out of it.

shops      what is simulated: pure, and the same numbers every time
topics     which topics there are, and where each keeps its records
publishing records into topics, through the Kafka front
stage      a node of its own, waited for, and taken down
question   what is asked of the topics, in SQL, over hot and cold
tiers      what is where
picture    the answer as a PNG
report     the answer as a table and a page
sizes      numbers of bytes, for people
"""
