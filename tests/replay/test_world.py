"""The simulated laboratory as the world, with a scripted model and a small real tokenizer."""

from collections.abc import Callable, Sequence

import pytest

from suite.errors import InvalidInput, RunFailed
from suite.grade.tools import tools_of
from suite.observer import SilentObserver
from suite.replay.conversation import Conversation, Setting
from suite.replay.judge import Judge, Written, tool_call_turns
from suite.replay.roll import Rolled, roll
from suite.replay.schema import Answer
from suite.replay.world import follow
from suite.workload.render import prompt_ids, render_with
from suite.workload.session import AssistantMessage, Session, ToolMessage
from suite.workload.synthesize import build_session
from suite.workload.template import Template
from suite.workload.tokenizer import Tokenizer, load_tokenizer
from tests.workload.conftest import LAB, make_tokenizer

TEMPLATE = (LAB / "chatml-tools.jinja").read_text(encoding="utf-8")
END = "<|im_end|>"
GARBLED = "<tool_call>\n<function=device_show>\n<parameter=device>\ncore-1\n</function>\n</tool_call>"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return load_tokenizer(make_tokenizer(tmp_path_factory.mktemp("chatml"), ["<|im_start|>", END, "<|endoftext|>"]))


@pytest.fixture(scope="module")
def scripted() -> Session:
    """Two tasks of the laboratory, a call and an answer each."""
    return build_session("scripted", 5, ["ask-lookup", "ask-vlan"])


@pytest.fixture(scope="module")
def setting(tokenizer: Tokenizer, scripted: Session) -> Setting:
    definitions = [tool.model_dump(mode="json", exclude_none=True) for tool in scripted.tools]
    return Setting(
        session=scripted, tokenizer=tokenizer, chat_template=TEMPLATE, tools=tools_of(definitions), format="qwen_xml"
    )


def said_at(setting: Setting, message: int) -> str:
    """What the scripted session has there, as the template writes it, without the end token."""
    template = Template(setting.tokenizer, setting.session, TEMPLATE)
    prompt = template.apply(template.messages[:message], generation_prompt=True)
    whole = template.apply(template.messages[: message + 1])
    return whole.removeprefix(prompt).removesuffix(f"{END}\n")


def model(tokenizer: Tokenizer, *texts: str) -> Callable[[Sequence[Sequence[int]]], list[tuple[tuple[int, ...], bool]]]:
    """A model that writes these texts, one a round; a text that ends with an ellipsis runs into the cap."""
    left = iter(texts)

    def ask(prompts: Sequence[Sequence[int]]) -> list[tuple[tuple[int, ...], bool]]:
        written = []
        for _ in prompts:
            text = next(left)
            cut = text.endswith("…")
            written.append((tokenizer.encode(text if cut else text + END), not cut))
        return written

    return ask


def first_answer(setting: Setting, message: int, text: str, *, cut: bool = False) -> Answer:
    return Judge(setting.session).answer(
        Written(
            message=message,
            sample=0,
            seed=None,
            ending="truncated" if cut else "stop",
            text=text + ("" if cut else END),
            format="qwen_xml",
            token_ids=setting.tokenizer.encode(text + ("" if cut else END)),
        )
    )


def followed(setting: Setting, text: str, *later: str, cut: bool = False, context_tokens: int = 100_000) -> Answer:
    message = tool_call_turns(setting.session)[0]
    prompt = prompt_ids(setting.session, setting.tokenizer.folder, message, chat_template=TEMPLATE)
    (answer,) = follow(
        setting,
        setting.session,
        [first_answer(setting, message, text, cut=cut)],
        {message: prompt},
        model(setting.tokenizer, *later),
        context_tokens=context_tokens,
        max_steps=3,
    )
    return answer


def outcome(answer: Answer) -> tuple[str, int]:
    assert answer.followed is not None
    return answer.followed.outcome, len(answer.followed.steps)


@pytest.fixture(scope="module")
def right(setting: Setting) -> str:
    return said_at(setting, tool_call_turns(setting.session)[0])


def test_a_broken_call_that_is_put_right_has_recovered(setting: Setting, right: str) -> None:
    answer = followed(setting, GARBLED, GARBLED, right)
    assert outcome(answer) == ("recovered", 2)
    assert answer.followed is not None
    assert answer.followed.steps[0].results[0].startswith("error: the tool call could not be read: ")
    assert [step.verdict for step in answer.followed.steps][-1] == "ok"


def test_a_wrong_call_is_answered_by_the_laboratory_itself(setting: Setting, right: str) -> None:
    wrong = GARBLED.replace("core-1\n", "core-9\n</parameter>\n<parameter=command>\nshow version\n</parameter>\n")
    answer = followed(setting, wrong, right)
    assert outcome(answer) == ("recovered", 1)
    assert answer.followed is not None
    assert 'error: no device named "core-9"' in answer.followed.steps[0].results[0]


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        (("I give up.",), ("not recovered", 1)),
        ((GARBLED, GARBLED, GARBLED), ("undecided", 3)),
        (("<tool_call>\n<function=dev…",), ("undecided", 1)),
    ],
)
def test_what_does_not_recover(setting: Setting, later: tuple[str, ...], expected: tuple[str, int]) -> None:
    assert outcome(followed(setting, GARBLED, *later)) == expected


def test_what_need_not_and_what_cannot_be_followed(setting: Setting, right: str) -> None:
    assert outcome(followed(setting, right)) == ("survived", 0)
    assert outcome(followed(setting, "It is fine.")) == ("not recovered", 0)
    assert outcome(followed(setting, "<tool_call>\n<func", cut=True)) == ("undecided", 0)
    assert outcome(followed(setting, GARBLED, context_tokens=200)) == ("undecided", 0)


def test_only_sessions_of_the_laboratory_are_followed(setting: Setting, right: str) -> None:
    provenance = setting.session.provenance.model_copy(update={"generator": "elsewhere"})
    other = setting.session.model_copy(update={"provenance": provenance})
    message = tool_call_turns(other)[0]
    with pytest.raises(InvalidInput, match="was not written by"):
        follow(
            setting,
            other,
            [first_answer(setting, message, right)],
            {message: ()},
            model(setting.tokenizer),
            context_tokens=9,
        )


def test_what_the_model_wrote_stays_and_what_follows_is_rendered(setting: Setting, scripted: Session) -> None:
    message = tool_call_turns(scripted)[0]
    history = [item.model_dump(mode="json", exclude_none=True) for item in scripted.messages[:message]]
    conversation = Conversation(setting, history)
    written = setting.tokenizer.encode(said_at(setting, message) + END)
    said = conversation.read(written)
    reply = conversation.reply(said, lambda name, arguments: f"{name} says nothing")
    assert reply is not None
    conversation.add(written, said, *reply)
    text = setting.tokenizer.backend.decode(conversation.token_ids)
    template = Template(setting.tokenizer, scripted, TEMPLATE)
    assert text == template.apply(
        [*template.messages[: message + 1], {"role": "tool", "content": "host_run says nothing"}],
        generation_prompt=True,
    )


def rolled(setting: Setting, *texts: str, **options: object) -> Rolled:
    write = model(setting.tokenizer, *texts)
    settings: dict[str, object] = {"max_tokens": 100_000, "name": "rolled", "note": "scripted"} | options
    return roll(
        setting,
        setting.session,
        lambda history: write([history])[0],
        end_token_id=setting.tokenizer.encode(END)[0],
        observer=SilentObserver(),
        **settings,  # type: ignore[arg-type]
    )


def assistant_texts(setting: Setting) -> list[str]:
    messages = setting.session.messages
    return [said_at(setting, i) for i, m in enumerate(messages) if isinstance(m, AssistantMessage)]


def test_a_model_that_says_what_the_script_says_gives_the_script_again(setting: Setting) -> None:
    texts = assistant_texts(setting)
    result = rolled(setting, *texts)
    assert (result.tasks, result.left_out, result.num_turns) == (2, {}, len(texts))
    found, expected = result.session.messages, setting.session.messages
    assert [m.role for m in found] == [m.role for m in expected]
    ours = [m.tool_calls for m in found if isinstance(m, AssistantMessage)]
    theirs = [m.tool_calls for m in expected if isinstance(m, AssistantMessage)]
    assert [[c.function for c in calls or []] for calls in ours] == [
        [c.function for c in calls or []] for calls in theirs
    ]
    first = next(m.content for m in found if isinstance(m, ToolMessage))
    assert first == next(m.content for m in expected if isinstance(m, ToolMessage))


def test_its_recorded_ids_are_what_the_model_was_given_and_wrote(setting: Setting) -> None:
    asked: list[tuple[int, ...]] = []
    write = model(setting.tokenizer, *assistant_texts(setting))

    def ask(history: Sequence[int]) -> tuple[tuple[int, ...], bool]:
        ((token_ids, ended),) = write([history])
        asked.append((*history, *token_ids))
        return token_ids, ended

    result = roll(
        setting,
        setting.session,
        ask,
        end_token_id=setting.tokenizer.encode(END)[0],
        name="rolled",
        note="",
        max_tokens=100_000,
        observer=SilentObserver(),
    )
    rendered = render_with(result.session, setting.tokenizer, chat_template=TEMPLATE)
    assert result.session.recorded is not None
    assert rendered.token_ids == tuple(result.session.recorded.token_ids)
    for ids in asked:
        assert rendered.token_ids[: len(ids)] == ids
    ends = [turn for turn in rendered.turns if turn.output_start is not None]
    assert len(ends) == len(asked)


def test_a_task_that_cannot_be_kept_is_left_out_as_a_whole(setting: Setting) -> None:
    texts = assistant_texts(setting)
    result = rolled(setting, texts[0], "", "Done.")
    assert (result.tasks, result.left_out) == (1, {"an answer was empty": 1})
    assert [m.role for m in result.session.messages] == ["system", "user", "assistant"]
    with pytest.raises(RunFailed, match=r"no task could be kept \(an answer was empty: 2\)"):
        rolled(setting, " \n", " \n")


def test_a_call_in_other_spacing_stays_text_and_is_answered_as_text(setting: Setting) -> None:
    spaced = said_at(setting, tool_call_turns(setting.session)[0]).replace("</tool_call>", "\n</tool_call>")
    result = rolled(setting, spaced, "Done.", tasks=1)
    roles = [m.role for m in result.session.messages]
    assert roles == ["system", "user", "assistant", "user", "assistant"]
    assert result.num_calls == len(setting.session.messages[2].tool_calls or [])  # type: ignore[union-attr]
    assert "<tool_call>" in str(result.session.messages[2].content)


def test_a_turn_that_runs_into_the_cap_is_ended_for_the_model(setting: Setting) -> None:
    texts = assistant_texts(setting)
    result = rolled(setting, texts[0], "and so on and on…", "<tool_call>\n<function=dev…", "Done.")
    assert (result.tasks, result.num_turns, result.num_cut, result.left_out) == (2, 4, 2, {})
    said = [str(m.content) for m in result.session.messages[3:]]
    assert said[1] == "and so on and on…"
    assert said[3] == "<tool_call>\n<function=dev…"
    assert said[4].startswith("error: the tool call could not be read")


def test_turns_and_length_are_limited(setting: Setting) -> None:
    texts = assistant_texts(setting)
    result = rolled(setting, texts[0], "Done.", max_turns=1)
    assert result.num_turns == 2
    first = prompt_ids(setting.session, setting.tokenizer.folder, 2, chat_template=TEMPLATE)
    with pytest.raises(RunFailed, match="the session is full"):
        rolled(setting, *texts, max_tokens=len(first) + 1)
