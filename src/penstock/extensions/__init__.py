"""Extensions: what the core does without. Any of these folders can be removed, and everything else works as before.

annotations/      what annotation tools write
coreml/           Core ML models for Apple's devices
kafka/            datasets in topics of Kafka
datasets/         data sets as their authors publish them
tensorflow/       TFRecords that TensorFlow's programs wrote
volumes/          medical volumes: NIfTI, series of DICOM files
"""
