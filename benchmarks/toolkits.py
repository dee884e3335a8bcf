"""Training speed of exadec, OpenNMT-py 3.5 and a plain loop over torch.nn.LSTM: target words per second, in one run.

In: ids packed by `training.py pack`, OpenNMT-py as a folder of Python. Out: JSON in docs/results/training/.

    python benchmarks/toolkits.py cpu work/news-ids.npz --opennmt FOLDER
    python benchmarks/toolkits.py gpu work/news-ids.npz --opennmt FOLDER

FOLDER holds the packages `onmt` and `configargparse`, unpacked. Other packages that OpenNMT-py imports (tokenisers,
fuzzy matching, language detection) are not used in a training step; missing ones are replaced by empty modules.

All programs train on the same batches in turn: one batch each on a CPU; all batches each on a GPU, where exadec queues
its steps. exadec's time includes collating each batch. The others get tensors that are already on the device, so
OpenNMT-py's input pipeline does not count: reading, numbering, copy maps, padding. Its step is that of its own Trainer
(forward, copy loss, statistics, backward, clipping, Adam), in three variants:

- `OpenNMT-py`: as released, with input feeding, because only that one of its recurrent decoders can copy. On a GPU its
  copy loss fails: `collapse_copy_scores` has its indices on the CPU. Here they are moved to the scores.
- `OpenNMT-py, no input feeding`: its other decoder, one call of nn.LSTM for all steps. We make it copy with its
  attention and start from the encoder's top layer, neither of which its options allow.
- `OpenNMT-py, no input feeding, no accuracy`: also without the loop over the batch that only computes its accuracy.

Sizes are those of configs/news.yaml. OpenNMT-py splits its hidden size between the encoder's directions and needs the
same size in decoder and tied embeddings. With 256 its encoder has 128 per direction; exadec and the plain loop have
256, so its model is the smaller one (`parameters`). On a GPU each runs in float32 and mixed, OpenNMT-py in float16.
"""

import argparse
import importlib
import inspect
import json
import statistics
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from training import RESULTS, PackedLoader, build

from exadec.config import VARIANTS, ModelConfig, TrainingConfig
from exadec.corpus.vocabulary import BOS, EOS, PAD
from exadec.loading.batch import Batch
from exadec.loading.resident import ResidentLoader
from exadec.model.seq2seq import Seq2seq
from exadec.training.optimizer import build_optimizer
from exadec.training.step import Step

SIZE, LAYERS, DROPOUT, CLIP = 256, 3, 0.15, 1.0
OURS = ("exadec Seq2seq", "exadec AdaDec")


@dataclass
class Engine:
    """A trainer: it runs a step on a given batch, and returns the mean loss per word since the last call."""

    parameters: int
    step: Callable[[int], None]
    loss: Callable[[], float]


class Lane:
    """An engine and its times. If an engine fails, the failure is recorded and the engine is skipped afterwards."""

    def __init__(self, name: str, precision: str, start: Callable[[], Engine], device: torch.device):
        self.name, self.precision = name, precision
        self.wait = torch.cuda.synchronize if device.type == "cuda" else lambda: None
        self.times: list[list[float]] = []  # (rounds, blocks): seconds
        self.losses: list[float] = []
        self.error: str | None = None
        self.engine: Engine | None = None
        self.attempt(lambda: setattr(self, "engine", start()))

    def attempt(self, work: Callable[[], None]) -> float:
        if self.error is not None:
            return float("nan")
        try:
            self.wait()
            started = time.perf_counter()
            work()
            self.wait()
            return time.perf_counter() - started
        except Exception:
            self.error = traceback.format_exc()
            return float("nan")

    def run(self, block: range) -> float:
        return self.attempt(lambda: [self.engine.step(number) for number in block] and None)

    def note_loss(self) -> None:
        self.attempt(lambda: self.losses.append(self.engine.loss()))

    def summary(self, words: int) -> dict[str, Any]:
        row: dict[str, Any] = {"name": self.name, "precision": self.precision}
        if self.error is not None:
            return row | {"error": self.error}
        seconds = sum(statistics.median(times) for times in zip(*self.times, strict=True))
        row |= {"parameters": self.engine.parameters, "words_per_second": round(words / seconds)}
        return row | {"loss_of_first_and_last_pass": [round(self.losses[0], 3), round(self.losses[-1], 3)]}


def start_exadec(loader: PackedLoader, variant: str, batch: int, batches: list[np.ndarray], device: str) -> Engine:
    """The step of `exadec train`."""
    if device == "cuda":
        steps, losses = build(loader, variant, batch)
        return Engine(count(steps.step.model), lambda number: steps(batches[number]), lambda: mean_loss(losses))
    torch.manual_seed(1)
    model = Seq2seq(ModelConfig(**VARIANTS[variant]), loader.vocabulary_size)
    losses = torch.zeros(2, dtype=torch.float64)
    step = Step(model, build_optimizer(model, TrainingConfig()), CLIP, losses, torch.float32)
    return Engine(count(model), lambda number: step(loader.batch(batches[number])), lambda: mean_loss(losses))


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def mean_loss(losses: torch.Tensor) -> float:
    """The mean, from (sum of losses, number of words); resets both to zero."""
    total, words = losses.tolist()
    losses.zero_()
    return total / words


class Words:
    """A vocabulary for OpenNMT-py; a dictionary is faster than the compiled one it comes with."""

    def __init__(self, tokens: list[str]):
        self.ids_to_tokens = tokens
        self.ids = {token: number for number, token in enumerate(tokens)}

    def __len__(self) -> int:
        return len(self.ids_to_tokens)

    def __getitem__(self, token: str) -> int:
        return self.ids.get(token, 0)


SYMBOLS = ["<unk>", "<blank>", "<s>", "</s>"]
"""OpenNMT-py's special words; its copy loss expects the unknown word at 0."""


class OpenNmt:
    """OpenNMT-py with the changes listed in the module's docstring."""

    def __init__(self, folder: Path):
        sys.path.insert(0, str(folder))
        for name in ("pyonmttok", "spacy", "ahocorasick", "rapidfuzz", "fasttext", "regex", "sacrebleu"):
            try:
                importlib.import_module(name)
            except ImportError:
                sys.modules[name] = MagicMock()
        for name in ("model_builder", "opts", "trainer", "inputters.text_utils", "utils.parse"):
            importlib.import_module(f"onmt.{name}")
        self.onmt = sys.modules["onmt"]
        module = self.onmt.modules.copy_generator
        source = inspect.getsource(module.collapse_copy_scores)
        exec(source.replace(".to(torch.int64)", ".to(scores.device, torch.int64)"), vars(module))
        self.collapse = module.collapse_copy_scores

        class DecoderAtOnce(self.onmt.decoders.StdRNNDecoder):  # type: ignore[name-defined, misc]
            def init_state(self, src: Any, enc_out: Any, enc_final_hs: Any) -> None:
                super().init_state(src, enc_out, tuple(state[-2:] for state in enc_final_hs))

            def _run_forward_pass(self, tgt: Any, enc_out: Any, src_len: Any = None) -> Any:
                state, outputs, attention = super()._run_forward_pass(tgt, enc_out, src_len)
                attention["copy"] = attention["std"].transpose(0, 1).contiguous()  # (T, B, S), as the other decoder
                return state, outputs, attention

        self.onmt.decoders.str2dec["rnn"] = DecoderAtOnce

    def options(self, precision: str, feeding: bool, device: str) -> argparse.Namespace:
        given = f"""-data none -src_vocab none -save_model none -share_vocab -share_embeddings
            -share_decoder_embeddings -word_vec_size {SIZE} -hidden_size {SIZE} -encoder_type brnn -decoder_type rnn
            -rnn_type LSTM -enc_layers {LAYERS} -dec_layers 1 -input_feed {int(feeding)} -global_attention general
            -copy_attn -reuse_copy_attn -dropout {DROPOUT} -optim adam -learning_rate 0.001 -max_grad_norm {CLIP}
            -normalization tokens -model_dtype {"fp16" if precision == "float16" else "fp32"}"""
        parser = self.onmt.utils.parse.ArgumentParser()
        self.onmt.opts.train_opts(parser)
        options = parser.parse_args(given.split() + (["-world_size", "1", "-gpu_ranks", "0"] * (device == "cuda")))
        parser.update_model_opts(options)
        parser.validate_model_opts(options)
        options.data = {}
        return options

    def start(
        self, batches: list[dict[str, Any]], size: int, precision: str, feeding: bool, accuracy: bool, device: str
    ) -> Engine:
        onmt, options = self.onmt, self.options(precision, feeding, device)
        words = Words([*SYMBOLS, *(str(number) for number in range(len(SYMBOLS), size))])
        vocabularies = {"src": words, "tgt": words, "data_task": "seq2seq", "decoder_start_token": "<s>"}
        number_of_device = 0 if device == "cuda" else -1
        torch.manual_seed(1)
        model = onmt.model_builder.build_model(options, options, vocabularies, None, number_of_device)
        optimizer = onmt.utils.optimizers.Optimizer.from_opt(model, options)
        trainer = onmt.trainer.build_trainer(options, number_of_device, model, vocabularies, optimizer)
        total = onmt.utils.Statistics()

        def step(number: int) -> None:
            onmt.utils.loss.collapse_copy_scores = self.collapse if accuracy else lambda scores, *_: scores
            batch = batches[number]
            trainer._gradient_accumulation([batch], batch["words"], total, onmt.utils.Statistics())

        def loss() -> float:
            mean = total.loss / total.n_words
            total.loss = total.n_words = 0
            return mean

        return Engine(count(model), step, loss)

    def batch(self, loader: PackedLoader, indices: np.ndarray, device: torch.device) -> dict[str, Any]:
        """The batch as its data loader would give it, made by its own `tensorify`."""
        examples = []
        for index in indices:
            source, target = (_renumber(side[int(index)]) for side in (loader.sources, loader.targets))
            local = Words([*SYMBOLS, *(str(word) for word, _ in Counter(source).most_common())])
            example = {"src": {"src_ids": source}, "tgt": {"tgt_ids": [BOS, *target, EOS]}}
            example |= {"src_ex_vocab": local, "src_map": [local[str(word)] for word in source]}
            example |= {"alignment": [0, *(local[str(word)] for word in target), 0], "cid": "", "cid_line_number": 0}
            examples.append((example, 0))
        padding = {"src": Words(SYMBOLS), "tgt": Words(SYMBOLS)}
        tensors = self.onmt.inputters.text_utils.tensorify(padding, examples, torch.device("cpu"))
        batch = {name: part.to(device) if torch.is_tensor(part) else part for name, part in tensors.items()}
        return batch | {"words": sum(len(example["tgt"]["tgt_ids"]) - 1 for example, _ in examples)}


open_opennmt = cache(OpenNmt)


def _renumber(ids: np.ndarray) -> list[int]:
    """Swap 0 and 1: padding and unknown word of exadec, the other way round in OpenNMT-py."""
    return np.where(ids < 2, 1 - ids, ids).tolist()


class PlainSeq2seq(nn.Module):
    """Attention and copying on top of nn.LSTM, with the whole distribution over the vocabulary written out."""

    def __init__(self, size: int):
        super().__init__()
        self.embedding = nn.Embedding(size, SIZE, padding_idx=PAD)
        self.encoder = nn.LSTM(SIZE, SIZE, LAYERS, batch_first=True, bidirectional=True, dropout=DROPOUT)
        self.bridges = nn.ModuleList(nn.Linear(2 * SIZE, SIZE) for _ in range(2))
        self.decoder = nn.LSTM(SIZE, SIZE, batch_first=True)
        self.key = nn.Linear(2 * SIZE, SIZE, bias=False)
        self.combine = nn.Linear(3 * SIZE, SIZE, bias=False)
        self.gate = nn.Linear(4 * SIZE, 1)
        self.output = nn.Linear(SIZE, size)
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        self.output.weight = self.embedding.weight
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, batch: Batch, lengths: torch.Tensor) -> torch.Tensor:
        """(B, T): log p of each target word; `lengths` are on the CPU, where packing wants them."""
        embedded = self.dropout(self.embedding(batch.source))  # (B, S, E)
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        values, last = self.encoder(packed)
        values, _ = pad_packed_sequence(values, batch_first=True)  # (B, S, 2D)
        tops = [torch.cat([state[-2], state[-1]], dim=1) for state in last]  # (B, 2D)
        inputs = self.dropout(self.embedding(batch.target_input))  # (B, T, E)
        first = [torch.tanh(bridge(top))[None].to(inputs) for bridge, top in zip(self.bridges, tops, strict=True)]
        hidden, _ = self.decoder(inputs, tuple(first))  # (B, T, D)
        scores = torch.bmm(hidden, self.key(values).transpose(1, 2))  # (B, T, S)
        weights = torch.softmax(scores.masked_fill((batch.source == PAD)[:, None], -torch.inf), dim=2)
        context = torch.bmm(weights.to(values.dtype), values)  # (B, T, 2D)
        attentional = self.dropout(torch.tanh(self.combine(torch.cat([context, hidden], dim=2))))
        generate = torch.sigmoid(self.gate(torch.cat([context, hidden, inputs.to(hidden.dtype)], dim=2)).float())
        generated = generate * torch.softmax(self.output(attentional).float(), dim=2)  # (B, T, V)
        places = batch.source[:, None].expand(-1, hidden.shape[1], -1)
        mixed = generated.scatter_add(2, places, (1 - generate) * weights.float())
        return mixed.gather(2, batch.target_output[:, :, None]).squeeze(2).clamp_min(1e-20).log()


def start_plain(batches: list[Batch], size: int, precision: str, device: str) -> Engine:
    torch.manual_seed(1)
    model = PlainSeq2seq(size).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    losses = torch.zeros(2, device=device, dtype=torch.float64)
    lengths = [batch.source_lengths.cpu() for batch in batches]

    def step(number: int) -> None:
        batch = batches[number]
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bfloat16"):
            log_probs = model(batch, lengths[number])
        words = batch.target_output != PAD
        total = -log_probs[words].sum()
        optimizer.zero_grad()
        (total / words.sum()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        losses.add_(torch.stack([total.detach(), words.sum()]))

    return Engine(count(model), step, lambda: mean_loss(losses))


def line_up(
    loader: PackedLoader, folder: Path, batch: int, batches: list[np.ndarray], device: torch.device
) -> list[Lane]:
    """Every engine to compare, ready to run."""
    kind, size, lanes = device.type, loader.vocabulary_size, []
    mixed = kind == "cuda"
    for name, variant in zip(OURS, ("seq2seq", "adadec"), strict=True):
        start = partial(start_exadec, loader, variant, batch, batches, kind)
        lanes.append(Lane(name, "bfloat16" if mixed else "float32", start, device))

    @cache
    def prepare() -> list[dict[str, Any]]:
        return [open_opennmt(folder).batch(loader, indices, device) for indices in batches]

    def start_opennmt(precision: str, feeding: bool, accuracy: bool) -> Engine:
        return open_opennmt(folder).start(prepare(), size, precision, feeding, accuracy, kind)

    for name, feeding, accuracy in (
        ("OpenNMT-py", True, True),
        ("OpenNMT-py, no input feeding", False, True),
        ("OpenNMT-py, no input feeding, no accuracy", False, False),
    ):
        for precision in ("float32", "float16") if mixed else ("float32",):
            lanes.append(Lane(name, precision, partial(start_opennmt, precision, feeding, accuracy), device))
    plain = [loader.batch(indices).to(device) for indices in batches]
    for precision in ("float32", "bfloat16") if mixed else ("float32",):
        lanes.append(Lane("torch.nn.LSTM", precision, partial(start_plain, plain, size, precision, kind), device))
    return lanes


def measure(
    loader: PackedLoader, folder: Path, batch: int, count_of_batches: int, rounds: int, device: torch.device
) -> dict[str, Any]:
    batches = loader.training_batches(batch, 1, 0)[:count_of_batches]
    assert all(len(indices) == batch for indices in batches)
    words = int(sum((loader.targets.lengths[indices] + 1).sum() for indices in batches))
    lanes = line_up(loader, folder, batch, batches, device)
    whole = range(len(batches))
    for lane in lanes:
        # exadec captures a shape the third time it occurs.
        for _ in range(3 if lane.name in OURS and device.type == "cuda" else 1):
            lane.run(whole)
            lane.note_loss()
        print(f"batch {batch}: {lane.name}, {lane.precision}: {lane.error or 'ready'}", flush=True)
    blocks = [whole] if device.type == "cuda" else [range(i, i + 1) for i in whole]
    for _ in range(rounds):
        times = [[lane.run(block) for lane in lanes] for block in blocks]
        for lane, seconds in zip(lanes, zip(*times, strict=True), strict=True):
            lane.times.append(list(seconds))
            lane.note_loss()
    shape = partial(ResidentLoader(loader, torch.device("cpu")).shape, batch_size=batch)
    facts: dict[str, Any] = {"batch": batch, "batches": len(batches), "words": words, "rounds": rounds}
    facts |= {"vocabulary": loader.vocabulary_size, "shapes": len({shape(indices) for indices in batches})}
    facts |= {"lanes": [lane.summary(words) for lane in lanes], "times_faster": compare(lanes, 0.5)}
    return facts | {"lower_quartile": compare(lanes, 0.25), "upper_quartile": compare(lanes, 0.75)}


def compare(lanes: list[Lane], quantile: float) -> dict[str, dict[str, float]]:
    """How many times faster exadec is than each of the others, from times measured one after the other."""
    done = [lane for lane in lanes if lane.error is None]
    ratios: dict[str, dict[str, float]] = {lane.name: {} for lane in done if lane.name in OURS}
    for ours, other in product(done, done):
        if ours.name in OURS and other.name not in OURS:
            ratio = np.quantile(np.array(other.times) / np.array(ours.times), quantile)
            ratios[ours.name][f"{other.name} ({other.precision})"] = round(float(ratio), 2)
    return ratios


def name_of(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name()
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    model = next(line.partition(": ")[2] for line in lines if line.startswith("model name"))
    return f"{model}, {torch.get_num_threads()} threads"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["cpu", "gpu"])
    parser.add_argument("ids", type=Path)
    parser.add_argument("--opennmt", type=Path, required=True)
    arguments = parser.parse_args()
    device = torch.device("cuda" if arguments.part == "gpu" else "cpu")
    if arguments.part == "cpu":
        torch.set_num_threads(2)
    loader, rows, results = PackedLoader(arguments.ids), [], {"device": name_of(device), "torch": torch.__version__}
    for batch, batches, rounds in ((64, 12, 5), (512, 12, 5)) if arguments.part == "gpu" else ((64, 8, 5),):
        rows.append(measure(loader, arguments.opennmt, batch, batches, rounds, device))
        print(json.dumps(rows[-1], indent=1), flush=True)
        path = RESULTS / f"toolkits_{arguments.part}.json"
        results |= {"opennmt": getattr(sys.modules.get("onmt"), "__version__", None), "results": rows}
        path.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
