"""The public face: what `import penstock as ps` gives. Everything else may change without notice.

No module here imports PyTorch before it is needed: mistakes, `--help` and lists of runs do not wait seconds for it.

packing.py    raw data: inspect, pack, scenes, download
data.py       packed datasets: open, pull, and their splits
samples.py    single records, and image grids
topics.py     how topics are made
training.py   train, resume, check
notebook.py   a training in a notebook
advising.py   advise, recipe, list_models, prepare_process
runs.py       runs: load, export, list, compare, report
loaded.py     what load gives
scaffolding.py  new
arguments.py  misspelt keyword arguments
drawing.py    the grids of `Data.show`, with PyTorch
evaluating.py `Run.evaluate` and `Run.replay`, with PyTorch
"""
