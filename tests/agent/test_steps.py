from types import SimpleNamespace

import numpy as np

from suite.agent.steps import read_steps


def v1(computed, scheduled, prompt):
    batch = SimpleNamespace(
        req_ids=[f"r{i}" for i in range(len(computed))],
        num_computed_tokens_cpu=np.array(computed),
        num_prompt_tokens=np.array(prompt),
    )
    runner = SimpleNamespace(
        input_batch=batch, query_start_loc=SimpleNamespace(np=np.concatenate([[0], np.cumsum(scheduled)]))
    )
    tokens = {f"r{i}": count for i, count in enumerate(scheduled)}
    return runner, SimpleNamespace(scheduler_output=SimpleNamespace(num_scheduled_tokens=tokens))


def v2(computed, scheduled, prompt, *, lengths):
    # Requests keep a slot of their own, here in reverse order.
    slots = np.arange(len(computed))[::-1].copy()
    batch = SimpleNamespace(
        num_reqs=len(computed),
        num_scheduled_tokens=np.array(scheduled),
        idx_mapping_np=slots,
        query_start_loc_np=np.concatenate([[0], np.cumsum(scheduled)]),
        num_computed_prefill_tokens_np=np.minimum(computed, prompt),
    )
    if lengths:
        batch.seq_lens_cpu_upper_bound = np.array(computed) + np.array(scheduled)
    runner = SimpleNamespace(req_states=SimpleNamespace(prompt_len=SimpleNamespace(np=np.array(prompt)[slots])))
    return runner, SimpleNamespace(input_batch=batch)


def seen(runner, state):
    return [(s.first_row, s.position, s.count, s.prompt_tokens, s.batch_index) for s in read_steps(runner, state)]


def test_both_runners_tell_the_same_of_a_mixed_batch():
    batch = ([512, 0, 90], [512, 70, 1], [2000, 70, 80])
    wanted = [(0, 512, 512, 2000, 0), (512, 0, 70, 70, 1), (582, 90, 1, 80, 2)]
    assert seen(*v1(*batch)) == wanted
    assert seen(*v2(*batch, lengths=True)) == wanted


def test_the_second_runner_without_lengths_knows_prefill_steps():
    assert seen(*v2([512], [512], [2000], lengths=False)) == [(0, 512, 512, 2000, 0)]
