#!/usr/bin/env python3
"""Writes ResNet-18 (He et al., 2015) for 224 x 224 images as a Relay text.

usage: make_resnet18.py | relax-opt - --pipeline infer-type --print-style tvm -o resnet18.relay
"""

params, lines = [], []


def param(name, *shape):
    params.append(f"%{name}: Tensor[({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''}), float32]")
    return f"%{name}"


def emit(text):
    lines.append(f"  %{len(lines)} = {text};")
    return f"%{len(lines) - 1}"


def conv_bn(x, name, cin, cout, k, stride):
    w = param(f"{name}_weight", cout, cin, k, k)
    p = k // 2
    y = emit(
        f"nn.conv2d({x}, {w}, strides=[{stride}, {stride}], padding=[{p}, {p}, {p}, {p}], "
        f"channels={cout}, kernel_size=[{k}, {k}])"
    )
    stats = [param(f"{name}_bn_{s}", cout) for s in ("gamma", "beta", "moving_mean", "moving_var")]
    return emit(f"nn.batch_norm({y}, {', '.join(stats)})") + ".0"


def block(x, name, cin, cout, stride):
    y = emit(f"nn.relu({conv_bn(x, name + '_conv1', cin, cout, 3, stride)})")
    y = conv_bn(y, name + "_conv2", cout, cout, 3, 1)
    if stride != 1 or cin != cout:
        x = conv_bn(x, name + "_sc", cin, cout, 1, stride)
    return emit(f"nn.relu({emit(f'add({y}, {x})')})")


x = conv_bn(param("data", 1, 3, 224, 224), "conv0", 3, 64, 7, 2)
x = emit(f"nn.relu({x})")
x = emit(f"nn.max_pool2d({x}, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1])")
cin = 64
for stage, cout in enumerate((64, 128, 256, 512), 1):
    for unit in (1, 2):
        x = block(x, f"stage{stage}_unit{unit}", cin, cout, 2 if stage > 1 and unit == 1 else 1)
        cin = cout
x = emit(f"nn.global_avg_pool2d({x})")
x = emit(f"nn.batch_flatten({x})")
x = emit(f"nn.dense({x}, {param('fc_weight', 1000, 512)}, units=1000)")
x = emit(f"nn.bias_add({x}, {param('fc_bias', 1000)}, axis=-1)")
print('#[version = "0.0.5"]')
print(f"def @main({', '.join(params)}) -> Tensor[(1, 1000), float32] {{")
print("\n".join(lines))
print(f"  nn.softmax({x})")
print("}")
