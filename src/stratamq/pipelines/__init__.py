"""Declarative pipelines over topics: a project to begin with, and a runner that says what happens.

The pipelines are Spark's own (`pyspark.pipelines`); nothing here defines another kind.

    project    writes a small working project
    session    a Spark Connect session to run it on
    steps      what each step is at: a pure fold over events
    culprit    which record a step failed at
    running    all of it together
"""
