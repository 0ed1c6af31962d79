"""The public face: what `import penstock as ps` gives. Everything else may change without notice.

No module here imports PyTorch before it is needed: mistakes, `--help` and lists of runs do not wait seconds for it.

data.py       open, inspect, pack
training.py   train, resume
runs.py       runs: load, export, list, compare
loaded.py     what load gives
arguments.py  misspelt keyword arguments
"""
