"""One system in one process: takes requests as JSON lines, answers as JSON lines.

usage: worker.py SYSTEM THREADS CACHE
requests: {"do": "load", "workload": NAME}   builds (or takes from CACHE) and runs once
          {"do": "run", "runs": N}           runs N times and answers the seconds of each
          {"do": "result"}                   writes the last output to CACHE/SYSTEM.npy
"""
import json
import os
import sys
import time

system, threads, cache = sys.argv[1], int(sys.argv[2]), sys.argv[3]
for name in ("OMP_NUM_THREADS", "TVM_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = str(threads)
os.environ["JAX_PLATFORMS"] = "cpu"

import numpy as np  # noqa: E402

from workloads import ALL  # noqa: E402


def onnx_model(graph):
    if hasattr(graph, "onnx"):
        return graph.onnx()
    from to_onnx import to_onnx
    return to_onnx(graph)


def ort(graph, inputs, path):
    import onnxruntime as rt
    begin = time.perf_counter()
    model = onnx_model(graph).SerializeToString()
    options = rt.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = rt.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    # Bound once, so that no run copies or allocates in Python.
    binding = session.io_binding()
    for node in getattr(graph, "onnx_inputs", graph.inputs):
        binding.bind_cpu_input(node.name, node.value)
    binding.bind_output(graph.output.name)
    built = time.perf_counter() - begin

    def run():
        session.run_with_iobinding(binding)

    return run, lambda: binding.copy_outputs_to_cpu()[0], built, len(model)


def openvino(graph, inputs, path):
    import openvino as ov
    model = onnx_model(graph).SerializeToString()
    begin = time.perf_counter()
    core = ov.Core()
    compiled = core.compile_model(core.read_model(model), "CPU", {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
        "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    for i, value in enumerate(inputs):
        request.set_input_tensor(i, ov.Tensor(value, shared_memory=True))
    built = time.perf_counter() - begin
    return request.infer, lambda: request.get_output_tensor(0).data, built, len(model)


def tvm(graph, inputs, path):
    import tvm
    from tvm import relax
    from tvm.relax.frontend.onnx import from_onnx
    path += ".so"
    built = None
    if not os.path.exists(path):
        begin = time.perf_counter()
        cpu = tvm.get_global_func("target.llvm_get_system_cpu", allow_missing=True)
        target = tvm.target.Target({"kind": "llvm", "mcpu": cpu() if cpu else "x86-64-v4"})
        if hasattr(graph, "tvm"):
            module = tvm.script.from_source(graph.tvm())
        else:
            module = from_onnx(onnx_model(graph), keep_params_in_input=False)
        tvm.compile(module, target=target).export_library(path)
        built = time.perf_counter() - begin
    vm = relax.VirtualMachine(tvm.runtime.load_module(path), tvm.cpu())
    given = [tvm.runtime.tensor(v) for v in getattr(graph, "tvm_inputs", inputs)]
    out = [None]

    def run():
        out[0] = vm["main"](*given)

    return run, lambda: (out[0] if hasattr(out[0], "numpy") else out[0][0]).numpy(), built, os.path.getsize(path)


def lowered(graph, inputs):
    import jax
    from to_jax import to_jax
    return jax.jit(to_jax(graph)).lower(*inputs)


def jax(graph, inputs, path):
    import jax
    begin = time.perf_counter()
    compiled = lowered(graph, inputs).compile()
    built = time.perf_counter() - begin
    given, out = [jax.device_put(v) for v in inputs], [None]

    def run():
        out[0] = compiled(*given).block_until_ready()

    return run, lambda: np.asarray(out[0]), built, None


def iree(graph, inputs, path):
    import iree.compiler.tools as compiler
    import iree.runtime as rt
    path += ".vmfb"
    built = None
    if not os.path.exists(path):
        from jax._src.interpreters import mlir
        text = mlir.module_to_bytecode(lowered(graph, inputs).compiler_ir("stablehlo"))
        begin = time.perf_counter()
        made = compiler.compile_str(text, input_type="stablehlo", target_backends=["llvm-cpu"],
                                    extra_args=["--iree-llvmcpu-target-cpu=host"])
        built = time.perf_counter() - begin
        with open(path, "wb") as f:
            f.write(made)
    if threads > 1:
        rt.flags.parse_flags(f"--task_topology_group_count={threads}")
    config = rt.Config("local-task" if threads > 1 else "local-sync")
    context = rt.SystemContext(config=config)
    module = rt.VmModule.mmap(config.vm_instance, path)
    context.add_vm_module(module)
    main = context.modules[module.name]
    given = [rt.asdevicearray(config.device, v) for v in inputs]
    out = [None]

    def run():
        out[0] = main["main"](*given)

    return run, lambda: out[0].to_host(), built, os.path.getsize(path)


SYSTEMS = {"ONNX Runtime": ort, "OpenVINO": openvino, "TVM": tvm, "JAX": jax, "IREE": iree}

def held():
    """The most bytes that this process held; `ru_maxrss` would count the parent's before `exec`."""
    status = open("/proc/self/status").read()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


#: The protocol has the first standard output for itself; libraries print to the other one.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def main():
    run = fetch = None
    for line in sys.stdin:
        ask = json.loads(line)
        try:
            if ask["do"] == "load":
                run = fetch = None
                graph = ALL[ask["workload"]]()
                inputs = [n.value for n in graph.inputs]
                begin = time.perf_counter()
                run, fetch, built, size = SYSTEMS[system](graph, inputs, os.path.join(cache, ask["workload"]))
                run()
                answer = {"compile": built, "size": size, "first": time.perf_counter() - begin}
            elif ask["do"] == "run":
                times = []
                for _ in range(ask["runs"]):
                    begin = time.perf_counter()
                    run()
                    times.append(time.perf_counter() - begin)
                answer = {"times": times, "memory": held()}
            else:
                path = os.path.join(cache, system + ".npy")
                np.save(path, np.array(fetch()))
                answer = {"path": path}
        except BaseException as e:  # Whatever goes wrong in a system is a line of the table.
            text = " ".join(f"{type(e).__name__}: {e}".split())
            answer = {"error": text[:300]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


main()
