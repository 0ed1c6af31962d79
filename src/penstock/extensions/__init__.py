"""Extensions: what the core does without. Any of these folders can be removed, and everything else works as before.

annotations/      what annotation tools write
kafka/            datasets in topics of Kafka
datasets/         data sets as their authors publish them
"""
