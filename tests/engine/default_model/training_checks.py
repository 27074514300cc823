#!/usr/bin/env python3
"""The checks of training_test.py: training_checks.py NAME,... [FOLDER]. Needs PyTorch."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from model_case import SCRIPTS

import numpy
import torch

import bpe  # noqa: E402
import circuits  # noqa: E402
import data  # noqa: E402
import export  # noqa: E402
import generate  # noqa: E402
import train  # noqa: E402
from model import CausalAttention, Model, RmsNorm, Shape, SwiGlu  # noqa: E402
from server import Server  # noqa: E402

torch.set_num_threads(1)
TINY = {"num_layers": 2, "hidden_dim": 64, "num_heads": 4, "num_kv_heads": 2, "head_dim": 32,
        "rotary_dim": 16, "ffn_dim": 96, "context": 1024}


def expect(condition, what):
    if not condition:
        raise SystemExit(f"not so: {what}")


def attention_by_the_book(q, k, v):
    scores = torch.einsum("ghtd,gsd->ghts", q, k)
    hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return torch.einsum("ghts,gsd->ghtd", scores.masked_fill(hidden, float("-inf")).softmax(-1), v)


def compare(name, own, formula, inputs):
    """Values and gradients of two functions of the same inputs."""
    outs, grads = [], []
    for function in (own, formula):
        leaves = [t.clone().requires_grad_(True) for t in inputs]
        out = function(*leaves)
        (out * torch.arange(out.numel()).view(out.shape).cos()).sum().backward()
        outs.append(out.detach())
        grads.append([leaf.grad for leaf in leaves])
    expect(torch.allclose(*outs, atol=1e-5), name)
    for own_grad, formula_grad in zip(*grads):
        expect(torch.allclose(own_grad, formula_grad, atol=2e-4), f"the gradient of {name}")


def gradients(*_):
    torch.manual_seed(1)
    for length in (1, 7, 256, 300, 530):  # within a chunk, a whole one, several
        compare(f"attention over {length}", CausalAttention.apply, attention_by_the_book,
                [torch.randn(2, 2, length, 16), torch.randn(2, length, 16),
                 torch.randn(2, length, 16)])
    compare("RMSNorm", lambda x, w: RmsNorm.apply(x, w, 1e-5, torch.float32),
            lambda x, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * w,
            [torch.randn(9, 32), torch.randn(32)])
    compare("SwiGLU", SwiGlu.apply, lambda g, u: torch.nn.functional.silu(g) * u,
            [torch.randn(9, 32), torch.randn(9, 32)])
    # The whole: a small step along a direction changes the loss as the gradient says.
    model = random_model(Shape(vocab_size=97, **TINY), 2)
    tokens = torch.randint(0, 97, (3, 40))
    weights = (torch.rand(3, 40) < 0.4).float()
    total, _, rows = model.loss(tokens, weights)
    expect(len(rows) == int(weights[:, 1:].sum()), "the rows that count")
    total.backward()
    found = {name: torch.zeros_like(w) for name, w in model.weights.items()}
    model.take_gradients(found)
    for name in ("token_embd", "blk.0.attn_q", "blk.1.attn_k", "blk.1.ffn_down", "output_norm"):
        direction = found[name] / found[name].norm()
        losses = []
        for sign in (1, -1):
            model.weights[name] += sign * 1e-2 * direction
            model.cast()
            losses.append(float(model.loss(tokens, weights)[0].detach()))
            model.weights[name] -= sign * 1e-2 * direction
        slope = (losses[0] - losses[1]) / 2e-2
        expect(abs(slope - float(found[name].norm())) < 0.05 * abs(slope), f"the slope of {name}")


def copying(*_):
    """With its circuits an untrained model goes on with a repeated run; without them it cannot."""
    shape = Shape(vocab_size=512, num_layers=2, hidden_dim=192, num_heads=2, num_kv_heads=1,
                  head_dim=64, rotary_dim=32, ffn_dim=64)
    random = numpy.random.RandomState(1)
    for with_circuits, low, high in ((True, 0.75, 1.0), (False, 0.0, 0.1)):
        model = Model(shape, seed=1)
        if with_circuits:
            circuits.write(model, 1)
        model.cast()
        right = asked = 0
        for _ in range(4):
            tokens = random.randint(0, 512, 150).tolist()
            tokens += tokens[40:60]
            best = model.logits(tokens)[-20:-1].argmax(1)
            right += sum(int(a) == b for a, b in zip(best, tokens[-19:]))
            asked += 19
        expect(low <= right / asked <= high, f"{right} of {asked} copied, circuits: "
                                             f"{with_circuits}")


def random_model(shape, seed):
    model = Model(shape, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.weights.items():
        if weight.dim() == 1:
            weight.copy_(1 + 0.3 * torch.randn(weight.shape, generator=generator))
        else:
            scale = 0.3 if name == "token_embd" else 1.2 * weight.shape[1] ** -0.5
            weight.copy_(torch.randn(weight.shape, generator=generator) * scale)
    model.cast()
    return model


def prepare(folder, vocab_size=320):
    """A folder as build.py leaves it for training."""
    corpus = folder / "corpus.jsonl"
    subprocess.run([sys.executable, SCRIPTS / "corpus/generate.py", "--out", corpus, "--megabytes",
                    "0.08", "--longest", "600"], check=True)
    texts = [generate.chat.render(generate.json.loads(line)) for line in corpus.open()]
    tokenizer = bpe.train(bpe.count_words(texts), vocab_size)
    tokenizer.save(folder / "tokenizer.json")
    for name in ("train", "heldout", "unseen"):
        data.encode(tokenizer, corpus, folder / name, 1024)
    return Shape(vocab_size=vocab_size, **TINY)


def survival(folder):
    """A child writes checkpoints without a pause and is killed; what is there is always whole."""
    folder = Path(folder)
    child_code = """
import sys
sys.path.insert(0, sys.argv[1])
import torch, train
for number in range(10**9):
    state = {"number": number, "weights": torch.full((300_000,), float(number))}
    train.write_whole(sys.argv[2], lambda out: torch.save(state, out))
    if number == 0:
        print("written", flush=True)
"""
    path, random = folder / "checkpoint.pt", numpy.random.RandomState(1)
    child = None
    numbers = []
    for _ in range(2):
        child = subprocess.Popen([sys.executable, "-c", child_code, SCRIPTS, path],
                                 stdout=subprocess.PIPE)
        child.stdout.readline()
        for _ in range(10):
            time.sleep(random.random_sample() * 0.01)
            state = torch.load(path)
            expect(bool((state["weights"] == state["number"]).all()), "a whole checkpoint")
        child.send_signal(signal.SIGKILL)
        child.wait()
        state = torch.load(path)
        expect(bool((state["weights"] == state["number"]).all()), "a whole one after the kill")
        numbers.append(state["number"])
    expect(max(numbers) > 0, "the child was killed between its writes")


def resume(folder):
    """Four steps are the same as two, a checkpoint, and two more."""
    folder = Path(folder)
    shape = prepare(folder)

    def training():
        made = train.Training(folder, shape, minutes=1, tokens_per_step=250, device="cpu")
        made.model.dtype = made.optimizer.dtype = torch.float32
        return made

    whole = training()
    before = whole.heldout_loss("heldout")[0]
    losses = [whole.step() for _ in range(4)]
    first = training()
    for _ in range(2):
        first.step()
    first.seconds = 12.5
    first.save()
    second = training()
    second.load()
    expect(second.seconds == 12.5 and second.step_number == 2, "time and steps are kept")
    second.seconds = 0.0
    for loss in losses[2:]:
        expect(abs(second.step() - loss) < 1e-4, "the same losses as without a stop")
    for name, weight in whole.model.weights.items():
        expect(torch.allclose(weight, second.model.weights[name], atol=1e-5), name)
    after = whole.heldout_loss("heldout")[0]
    expect(after < before, f"the loss falls: from {before} to {after}")


def types(*_):
    """The faster type is found beside other work, and the search for it ends."""
    seconds = [0.0]

    def beside_others(faster):
        """Products that mostly take as long as the other work, now and then their own time."""
        random = numpy.random.RandomState(3)

        def measure(dtype):
            seconds[0] += 0.001
            own = 0.001 if dtype == faster else 0.1
            return own if random.random_sample() < 0.1 else 0.2 + random.random_sample()
        return measure

    for faster in (torch.float32, torch.bfloat16):
        best = train.compare_types(beside_others(faster), lambda: seconds[0])
        expect(min(best, key=best.get) == faster, f"{faster} is found")
    # Where nothing is steady, the bound ends it.
    begin, value = seconds[0], [1.0]

    def falling(_):
        seconds[0] += 1.0
        value[0] *= 0.5 + 0.4 * (seconds[0] % 2)
        return value[0]

    train.compare_types(falling, lambda: seconds[0])
    expect(seconds[0] - begin < train.PROBE_SECONDS + 3, "the search is bounded")


def unseen(folder):
    """The curve has the losses of both held-out parts."""
    folder = Path(folder)
    training = train.Training(folder, prepare(folder), minutes=1, tokens_per_step=250,
                              device="cpu")
    training.smooth = training.step()
    training.show_heldout()
    head, row = (line.split(",") for line in (folder / "curve.csv").read_text().splitlines())
    found = dict(zip(head, row))
    for name in train.HELDOUT_COLUMNS:
        expect(0 < float(found[name]) < 20, f"{name} in the curve: {found[name]}")


def agreement(folder):
    """Log-probabilities of the next token, of the model and of the engine on its exported file."""
    folder = Path(folder)
    shape = prepare(folder)
    model = random_model(shape, 3)
    torch.save({"shape": shape.asdict(), "weights": model.weights}, folder / "checkpoint.pt")
    export.export(folder / "checkpoint.pt", folder / "tokenizer.json", folder / "model.gguf")
    tokenizer = bpe.Tokenizer.load(folder / "tokenizer.json")
    with Server(folder / "model.gguf", folder / "data",
                ["--no-disk", "--kv-dtype", "f32", "--threads", "1"]) as running:
        for words in (3, 90):
            prompt = "The cache: " + " ".join(str(i * 37) for i in range(words))
            reply = running.complete(prompt, max_tokens=4, logprobs=5).json
            choice = reply["choices"][0]["logprobs"]
            ids = tokenizer.encode(prompt)
            for text, value, top in zip(choice["tokens"], choice["token_logprobs"],
                                        choice["top_logprobs"]):
                logs = torch.log_softmax(export.SHARPNESS * model.logits(ids)[-1], -1)
                best = int(logs.argmax())
                # A token that is no whole character is written as its bytes.
                expect(tokenizer.decode([best]) == text or text.startswith("bytes:"),
                       f"{text!r} after {len(ids)} tokens")
                expect(abs(float(logs[best]) - value) < 1e-3, "its log-probability")
                ranked = sorted(top.values(), reverse=True)
                for own, engine in zip(torch.topk(logs, 5).values.tolist(), ranked):
                    expect(abs(own - engine) < 1e-3, "the most probable five")
                ids.append(best)


if __name__ == "__main__":
    os.environ.setdefault("KVGATE_BIN", str(SCRIPTS.parents[1] / "build/dev/bin/kvgate"))
    for check in sys.argv[1].split(","):
        {"gradients": gradients, "copying": copying, "survival": survival, "resume": resume,
         "types": types, "unseen": unseen, "agreement": agreement}[check](*sys.argv[2:])
    # Threads of the server's reader and of PyTorch need not be waited for.
    sys.stdout.flush()
    os._exit(0)
