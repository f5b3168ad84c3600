"""A model over many images on a cluster: Dask sends the compiled program to its workers, where it is compiled for their
machines, and the images in batches.

    pip install relax-ir dask distributed
    python examples/python/dask_batch.py [images] [workers]
"""

import sys

import numpy as np
from dask.distributed import Client, LocalCluster, as_completed

import relax_ir as rx

# A small network: two convolutions, a dense layer. `n` images at once.
TEXT = """
def @main(
  %x: Tensor[(n, 1, 28, 28), float32],
  %conv1: Tensor[(8, 1, 3, 3), float32],
  %conv2: Tensor[(16, 8, 3, 3), float32],
  %dense: Tensor[(10, 784), float32],
) {
  let %a = nn.max_pool2d(nn.relu(nn.conv2d(%x, %conv1, padding=[1, 1], channels=8, kernel_size=[3, 3])),
    pool_size=[2, 2], strides=[2, 2]);
  let %b = nn.max_pool2d(nn.relu(nn.conv2d(%a, %conv2, padding=[1, 1], channels=16, kernel_size=[3, 3])),
    pool_size=[2, 2], strides=[2, 2]);
  argmax(nn.dense(nn.batch_flatten(%b), %dense, units=10), axis=[1])
}
"""
BATCH = 250


def model():
    """The program, with made-up weights as its constants."""
    module = rx.parse(TEXT)
    random = np.random.default_rng(1)
    weights = [p for p in module.functions[0].params if p.name != "x"]
    module.bind({p.name: random.standard_normal(p.shape).astype(p.dtype) for p in weights})
    return module.compile()


def images(batch, count):
    """The images of a batch; another program would read them from files."""
    return np.random.default_rng(batch).random((count, 1, 28, 28), dtype="float32")


def classes(program, batch, count):
    """What a worker does."""
    return batch, program(images(batch, count))


def run(client, total):
    """The classes of all images, in order, with progress on the way."""
    program = client.scatter(model(), broadcast=True)
    batches = [(i, min(BATCH, total - i * BATCH)) for i in range(-(-total // BATCH))]
    futures = [client.submit(classes, program, i, count) for i, count in batches]
    done, found = 0, {}
    for future in as_completed(futures):
        batch, result = future.result()
        found[batch] = result
        done += len(result)
        print(f"\r{done:6} of {total} images", end="", flush=True)
    print()
    return np.concatenate([found[i] for i, _ in batches])


if __name__ == "__main__":
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    workers = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    with LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            found = run(client, total)
    print("classes:", *np.bincount(found, minlength=10))
