"""A made GGUF model once more as a Hugging Face folder, without any of the code under test."""

import json
import struct

from gguf_vocab import GgufReader

CONTROL, UNKNOWN = 3, 2
PARTS = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
         "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
TOP = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
       "output.weight": "lm_head.weight"}
CLASSES = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM"}
QWEN_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
              r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def hf_name(name):
    if name in TOP:
        return TOP[name]
    _, layer, part, kind = name.split(".")
    return f"model.layers.{layer}.{PARTS[part]}.{kind}"


def trained_order(data, num_rows, head_dim):
    """Rows of q or k as trained; GGUF files of llama take from the halves of a head by turns."""
    size = len(data) // num_rows
    rows = [data[i * size:(i + 1) * size] for i in range(num_rows)]
    heads = [rows[i:i + head_dim] for i in range(0, num_rows, head_dim)]
    return b"".join(b"".join(head[0::2] + head[1::2]) for head in heads)


def safetensors(tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for *_, data in tensors)


def config_json(meta, arch, tied):
    number = {key.removeprefix(arch + "."): value for key, value in meta.items()}
    return {"architectures": [CLASSES[arch]], "hidden_act": "silu",
            "hidden_size": number["embedding_length"],
            "intermediate_size": number["feed_forward_length"],
            "max_position_embeddings": number["context_length"],
            "num_attention_heads": number["attention.head_count"],
            "num_key_value_heads": number["attention.head_count_kv"],
            "num_hidden_layers": number["block_count"],
            "head_dim": number["rope.dimension_count"],
            "rms_norm_eps": number["attention.layer_norm_rms_epsilon"],
            "rope_theta": number["rope.freq_base"], "tie_word_embeddings": tied,
            "vocab_size": len(meta["tokenizer.ggml.tokens"])}


def spm_merges(tokens):
    """All ways to merge two pieces into a third, that with the higher score (here: the lower id)
    first."""
    known = {token: index for index, token in enumerate(tokens)}
    return [f"{token[:cut]} {token[cut:]}" for token in tokens[3:] for cut in range(1, len(token))
            if token[:cut] in known and token[cut:] in known]


def tokenizer_json(meta):
    tokens, types = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    model = {"type": "BPE", "vocab": {token: index for index, token in enumerate(tokens)}}
    made = {"added_tokens": [{"id": index, "content": token, "special": True, "normalized": False}
                             for index, token in enumerate(tokens)
                             if types[index] in (CONTROL, UNKNOWN)], "model": model}
    if meta["tokenizer.ggml.model"] == "gpt2":
        model["merges"] = meta["tokenizer.ggml.merges"]
        split = {"type": "Split", "pattern": {"Regex": QWEN_WORDS}, "behavior": "Isolated"}
        spell = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
        made.update(pre_tokenizer={"type": "Sequence", "pretokenizers": [split, spell]},
                    decoder={"type": "ByteLevel"})
        return made
    model.update(merges=spm_merges(tokens), unk_token="<unk>", fuse_unk=True)
    first = {"single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
             "special_tokens": {"<s>": {"ids": [1]}}}
    blanks = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    spaces = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    strip = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
    made.update(normalizer={"type": "Sequence", "normalizers": [
                    {"type": "Prepend", "prepend": "\u2581"}, blanks]},
                post_processor={"type": "TemplateProcessing", **first},
                decoder={"type": "Sequence", "decoders": [spaces, {"type": "Fuse"}, strip]})
    return made


def write_hf_folder(gguf, folder, shards=1, chat_template=None):
    """The folder, of `shards` files of weights; returns it."""
    reader = GgufReader(gguf)
    meta = reader.metadata()
    arch, tokens = meta["general.architecture"], meta["tokenizer.ggml.tokens"]
    tensors = []
    for name, dimensions, kind, data in reader.tensors():
        if arch == "llama" and name.endswith(("attn_q.weight", "attn_k.weight")):
            data = trained_order(data, dimensions[1], meta["llama.rope.dimension_count"])
        tensors.append((hf_name(name), {0: "F32", 1: "F16"}[kind], dimensions[::-1], data))
    tied = not any(name == "lm_head.weight" for name, *_ in tensors)
    config = {"eos_token": tokens[meta["tokenizer.ggml.eos_token_id"]],
              "bos_token": tokens[meta["tokenizer.ggml.bos_token_id"]]}
    if chat_template is not None:
        config["chat_template"] = chat_template
    folder.mkdir()
    for name, value in (("config.json", config_json(meta, arch, tied)),
                        ("tokenizer.json", tokenizer_json(meta)),
                        ("tokenizer_config.json", config)):
        (folder / name).write_text(json.dumps(value))
    if shards == 1:
        (folder / "model.safetensors").write_bytes(safetensors(tensors))
        return folder
    weight_map = {}
    for number in range(shards):
        name = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        part = tensors[number::shards]
        (folder / name).write_bytes(safetensors(part))
        weight_map.update({tensor: name for tensor, *_ in part})
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return folder
