"""The tables of tidy.py: which part includes which, and what is allowed by exception, and why."""

# The parts of the tree, and which other parts each may include. A folder belongs to the part with
# the longest name that it begins with. Inside a part, folders may include each other in any way
# without circles (check_circles).
PARTS = {
    "base": "",
    "kernels": "base",
    "kernels/reference": "base kernels",
    "kernels/cpu": "base kernels",
    "kernels/cuda": "base kernels",
    "store": "base",
    "engine/modelfile": "base kernels",
    "engine/text": "base engine/modelfile",
    "engine/model": "base engine/modelfile kernels",
    "engine/embed": "base engine/model engine/modelfile kernels",
    "engine/sample": "base",
    "engine/kv": "base kernels",
    "engine/tier": "base engine/kv kernels store",
    "engine/schedule": "base engine/kv engine/tier kernels",
    "engine": "base engine/kv engine/model engine/sample engine/schedule engine/text engine/tier "
              "kernels store",
    "gateway/config": "base",
    "gateway/dashboard": "base",
    "gateway/metrics": "base",
    "gateway/dialect": "base engine/text",
    "gateway/upstream": "base gateway/config gateway/dialect",
    "gateway/access": "base gateway/config gateway/upstream",
    "gateway/ledger": "base gateway/metrics gateway/dialect gateway/upstream store",
    "gateway/advice": "base gateway/ledger gateway/dialect",
    "gateway/telemetry": "base gateway/access gateway/config gateway/ledger gateway/metrics "
                         "gateway/dialect gateway/upstream",
    "gateway/prompt": "base gateway/dialect gateway/ledger gateway/upstream",
    "gateway/route": "base gateway/config gateway/prompt gateway/upstream",
    "gateway/replay": "base gateway/ledger gateway/prompt gateway/dialect gateway/upstream",
    "gateway/local": "base engine engine/embed engine/kv engine/text engine/tier gateway/access "
                     "gateway/metrics gateway/dialect kernels store",
    "gateway/session": "base gateway/ledger gateway/metrics gateway/prompt gateway/dialect store",
    "gateway/service": "base gateway/access gateway/config gateway/ledger gateway/local "
                       "gateway/metrics gateway/prompt gateway/dialect gateway/session "
                       "gateway/upstream store",
    "gateway/proxy": "base engine gateway/access gateway/advice gateway/config gateway/dashboard "
                     "gateway/ledger gateway/local gateway/metrics gateway/dialect gateway/route "
                     "gateway/service gateway/session gateway/telemetry "
                     "gateway/upstream",
    "gateway/http": "base gateway/access gateway/config gateway/ledger gateway/metrics "
                    "gateway/proxy gateway/service gateway/upstream",
    # The composition root.
    "gateway/runtime": "base engine engine/embed engine/model engine/modelfile engine/text "
                       "engine/tier gateway/access gateway/config gateway/dialect gateway/http "
                       "gateway/ledger gateway/local gateway/metrics gateway/proxy gateway/service "
                       "gateway/session gateway/telemetry gateway/upstream kernels kernels/cpu "
                       "kernels/cuda store",
    "sdk": "base gateway/config gateway/ledger gateway/metrics gateway/proxy gateway/runtime "
           "gateway/upstream",
    # What commands of the command line share, and the benchmarks that stand on it.
    "gateway/cli/agents": "base gateway/cli/server gateway/cli/terminal gateway/config store",
    "gateway/cli/init": "base gateway/cli/agents gateway/config gateway/upstream",
    "gateway/cli/machine": "base engine/modelfile gateway/metrics",
    "gateway/cli/plan": "base engine/model engine/modelfile gateway/cli/server kernels "
                        "kernels/cpu store",
    "gateway/cli/server": "base gateway/http gateway/local gateway/dialect store",
    "gateway/cli/terminal": "base engine/text gateway/config",
    "gateway/bench": "base engine engine/model engine/modelfile engine/schedule engine/text "
                     "gateway/cli/server gateway/cli/terminal kernels kernels/cpu kernels/cuda "
                     "store",
    "gateway/cli": "base engine engine/kv engine/model engine/modelfile engine/text "
                   "gateway/access gateway/advice gateway/bench gateway/cli/agents "
                   "gateway/cli/init gateway/cli/machine gateway/cli/plan gateway/cli/server "
                   "gateway/cli/terminal gateway/config gateway/http "
                   "gateway/ledger gateway/local gateway/metrics gateway/dialect gateway/replay "
                   "gateway/route gateway/runtime gateway/service gateway/session "
                   "gateway/upstream kernels kernels/cpu kernels/cuda store",
}
# Third-party headers that belong to one place: (pattern, path prefixes, its name).
THIRD_PARTY = [
    (r"boost/", ("gateway/", "sdk/src/", "store/remote/"), "Boost"),
    (r"rocksdb/", ("store/rocks_", "store/file/rocks_", "store/kv/rocks_", "store/meta/rocks_"),
     "RocksDB"),
    (r"hwy/", ("kernels/cpu/",), "Highway"),
    (r"(immintrin|x86intrin|arm_neon)\.h", ("kernels/cpu/",), "intrinsics"),
    (r"(cuda|cublas|cuda_\w+|cublas\w+)\.h|cooperative_groups|cub/", ("kernels/cuda/",), "CUDA"),
]
# Tests that mirror no single file: path -> reason.
TESTS_WITHOUT_SOURCE = {
    "tests/complexity/bodies_complexity_test.cc": "the same of bodies, answers and replies",
    "tests/complexity/complexity_test.cc": "how cost grows with input, over several folders",
    "tests/engine/text/grammar/mask/mask_memory_test.cc": "allocations of masks that fail",
    "tests/engine/kv/eviction_trace_test.cc": "pool and prefix cache together, on traces",
    "tests/engine/engine_device_test.cc": "the engine where KV lies in a device's memory",
    "tests/engine/engine_bounded_promise_test.cc": "the same under every context policy",
    "tests/engine/engine_promise_test.cc": "the promise of the product over the whole engine",
    "tests/store/rocks_data_directory_faults_test.cc": "whole data directories under faults",
    "tests/engine/engine_shared_test.cc": "the same where engines share a store",
    "tests/engine/engine_windows_test.cc": "the same where layers have windows",
    "tests/engine/simulation/engine_memory_test.cc": "allocations of the engine's thread that fail",
    "tests/engine/simulation/simulation_test.cc": "the engine on one simulated clock and disk",
    "tests/engine/model/architecture_formats_test.cc": "every architecture in every weight format",
    "tests/gateway/prompt/diagnose/break_generator_test.cc": "breaks planted at random are named",
    "tests/gateway/prompt/templates/volatile_share_test.cc": "what is cached of random agents",
    "tests/gateway/service/append_only_test.cc": "each request extends the one before",
    "tests/gateway/service/killed_agents_test.cc": "a kill loses nothing that was sent",
    "tests/gateway/service/branches/moved_agents_test.cc": "a move loses nothing that was sent",
    "tests/gateway/prompt/optimizer_agents_test.cc": "whole agents through the Optimizer",
    "tests/gateway/prompt/traffic_judge_test.cc": "judges of simulated traffic, in tests alone",
    "tests/gateway/dialect/client_needs_test.cc": "what clients need of every encoder",
    "tests/gateway/session/memory/shared_memory_test.cc": "memories of gateways that share them",
    "tests/gateway/session/workday/workday_test.cc": "a day of agents, kept bounded in all ways",
    "tests/gateway/http/connection_prefixes_test.cc": "prefix files through a connection",
    "tests/gateway/http/socketless_test.cc": "a server and the proxy alone, beside each other",
    "tests/gateway/proxy/simulation/simulation_test.cc": "requests on one simulated network",
    "tests/gateway/local/round_trip_test.cc": "calls, from a template's text to the parser's",
    "tests/sdk/conformance_test.cc": "both kinds of client, through the C++ interface",
    "tests/sdk/json_test.cc": "JSON texts of the C++ interface, a header alone",
    "tests/sdk/keys_test.cc": "what callers may do, through the C++ interface",
    "tests/sdk/lifecycle_test.cc": "a gateway in the process, from its beginning to its end",
    "tests/kernels/conformance_attention_invariance_test.cc": "one suite for all backends",
    "tests/kernels/conformance_attention_test.cc": "one suite for all backends",
    "tests/kernels/conformance_experts_test.cc": "one suite for all backends",
    "tests/kernels/conformance_invariance_test.cc": "one suite for all backends",
    "tests/kernels/conformance_kv_test.cc": "one suite for all backends",
    "tests/kernels/conformance_matmul_test.cc": "one suite for all backends",
    "tests/kernels/conformance_rows_test.cc": "one suite for all backends",
    "tests/kernels/conformance_sampling_test.cc": "one suite for all backends",
}
# Library sources that another test than their mirror's shows to work: path -> that test.
TESTED_ELSEWHERE = {
    "engine/engine_loop.cc": "tests/engine/engine_test.cc",
    "engine/request_stats.cc": "tests/engine/engine_test.cc",
    "engine/step_runner.cc": "tests/engine/engine_test.cc",
    "engine/write_backs.cc": "tests/engine/engine_test.cc",
    "engine/text/grammar/schema/schema_arguments.cc":
        "tests/engine/text/output/reply_grammar_test.cc",
    "engine/text/grammar/schema/schema_collections.cc":
        "tests/engine/text/grammar/schema/json_schema_test.cc",
    "engine/text/grammar/schema/schema_names.cc":
        "tests/engine/text/grammar/schema/json_schema_test.cc",
    "engine/text/grammar/schema/schema_values.cc":
        "tests/engine/text/grammar/schema/json_schema_test.cc",
    "engine/text/jinja/builtins/collection_methods.cc":
        "tests/engine/text/jinja/expressions_test.cc",
    "engine/text/jinja/parse/expression_parser.cc": "tests/engine/text/jinja/parse/parser_test.cc",
    "engine/text/jinja/builtins/builtins.cc": "tests/engine/text/jinja/evaluator_test.cc",
    "engine/text/jinja/runtime/function.cc": "tests/engine/text/jinja/parse/parser_test.cc",
    "engine/text/jinja/builtins/globals.cc": "tests/engine/text/jinja/expressions_test.cc",
    "engine/text/jinja/value/heap.cc": "tests/engine/text/jinja/syntax/limits_test.cc",
    "engine/text/jinja/builtins/number_format.cc":
        "tests/engine/text/jinja/builtins/formatting_test.cc",
    "engine/text/jinja/operators.cc": "tests/engine/text/jinja/expressions_test.cc",
    "engine/text/jinja/printing.cc": "tests/engine/text/jinja/expressions_test.cc",
    "engine/text/jinja/runtime/runtime.cc": "tests/engine/text/jinja/expressions_test.cc",
    "engine/text/jinja/parse/scopes.cc": "tests/engine/text/jinja/evaluator_test.cc",
    "engine/text/jinja/syntax/failure.cc": "tests/engine/text/jinja/template_test.cc",
    "engine/text/jinja/value/unicode_tables.cc": "tests/engine/text/jinja/value/unicode_test.cc",
    "engine/modelfile/metadata.cc": "tests/engine/model/model_config_test.cc",
    "engine/modelfile/model_file.cc": "tests/engine/modelfile/gguf_test.cc",
    "engine/text/output/call_body.cc": "tests/engine/text/output/tag_parser_test.cc",
    "engine/text/output/object_body.cc": "tests/engine/text/output/tag_parser_test.cc",
    "engine/text/tokenizer/vocabulary/special_matcher.cc":
        "tests/engine/text/tokenizer/tokenizer_test.cc",
    "engine/text/tokenizer/vocabulary/word_table.cc":
        "tests/engine/text/tokenizer/bpe_tokenizer_test.cc",
    "gateway/cli/terminal/screen.cc": "tests/e2e/terminal_test.py",
    "gateway/proxy/handler/embedding/embedding_answer.cc":
        "tests/gateway/proxy/handler/embedding/local_embeddings_test.cc",
    "sdk/src/log_output.cc": "tests/sdk/lifecycle_test.cc",
    "sdk/src/transport/answer_job.cc": "tests/sdk/src/transport/remote_job_test.cc",
    "sdk/src/transport/embedded.cc": "tests/sdk/lifecycle_test.cc",
    "sdk/src/transport/exchange.cc": "tests/sdk/src/transport/remote_job_test.cc",
    "sdk/src/transport/in_process_job.cc": "tests/sdk/conformance_test.cc",
    "sdk/src/transport/remote.cc": "tests/sdk/src/transport/remote_job_test.cc",
    "gateway/cli/advise.cc": "tests/e2e/ledger_test.py",
    "gateway/cli/agents.cc": "tests/e2e/agents_test.py",
    "gateway/cli/agents/own_server.cc": "tests/e2e/agents_test.py",
    "gateway/cli/agents/run_agent.cc": "tests/e2e/agents_test.py",
    "gateway/cli/agents/run_server.cc": "tests/e2e/agents_test.py",
    "gateway/cli/agents/setup_command.cc": "tests/e2e/agents_test.py",
    "gateway/cli/init/init_command.cc": "tests/e2e/agents_test.py",
    "gateway/cli/bench.cc": "tests/gateway/bench/bench_engine_test.cc",
    "gateway/cli/cache.cc": "tests/e2e/cli_test.py",
    "gateway/cli/chat.cc": "tests/e2e/cli_test.py",
    "gateway/cli/doctor.cc": "tests/e2e/doctor_test.py",
    "gateway/cli/explain.cc": "tests/e2e/modes_test.py",
    "gateway/cli/ledger_source.cc": "tests/e2e/ledger_test.py",
    "gateway/cli/main.cc": "tests/e2e/main_path_test.py",
    "gateway/cli/plan.cc": "tests/e2e/cli_test.py",
    "gateway/cli/plan/inputs.cc": "tests/e2e/cli_test.py",
    "gateway/cli/plan/plan.cc": "tests/e2e/cli_test.py",
    "gateway/cli/plan/tables.cc": "tests/e2e/cli_test.py",
    "gateway/cli/record.cc": "tests/e2e/replay_test.py",
    "gateway/cli/render.cc": "tests/e2e/cli_test.py",
    "gateway/cli/replay.cc": "tests/e2e/replay_test.py",
    "gateway/cli/requests.cc": "tests/e2e/terminal_test.py",
    "gateway/cli/serve.cc": "tests/e2e/lifecycle_test.py",
    "gateway/cli/sessions.cc": "tests/e2e/sessions_test.py",
    "gateway/cli/stats.cc": "tests/e2e/ledger_test.py",
    "gateway/cli/stats_by.cc": "tests/e2e/ledger_test.py",
    "gateway/cli/tools.cc": "tests/e2e/cli_test.py",
    "gateway/cli/top.cc": "tests/e2e/terminal_test.py",
    "gateway/cli/warm.cc": "tests/e2e/pin_test.py",
    "gateway/http/body_reader.cc": "tests/gateway/http/connection_test.cc",
    "gateway/http/client_sink.cc": "tests/gateway/http/connection_test.cc",
    "gateway/http/connection_group.cc": "tests/gateway/http/server_test.cc",
    "gateway/prompt/rewrite/draft.cc": "tests/gateway/prompt/rewrite/pin_test.cc",
    "gateway/prompt/parse/edit.cc": "tests/gateway/prompt/optimizer_test.cc",
    "gateway/prompt/parse/element_reader.cc": "tests/gateway/prompt/parse/request_layout_test.cc",
    "gateway/prompt/parse/breakpoints.cc": "tests/gateway/prompt/optimizer_test.cc",
    "gateway/prompt/parse/segment_text.cc": "tests/gateway/prompt/parse/request_layout_test.cc",
    "gateway/prompt/parse/sources.cc": "tests/gateway/prompt/parse/request_layout_test.cc",
    "gateway/prompt/parse/volatile_values.cc": "tests/gateway/prompt/parse/volatile_text_test.cc",
    "gateway/dialect/form/json_value.cc": "tests/gateway/dialect/chat/chat_completions_test.cc",
    "gateway/dialect/messages/messages_encoder.cc":
        "tests/gateway/dialect/messages/messages_test.cc",
    "gateway/dialect/responses/responses_encoder.cc":
        "tests/gateway/dialect/responses/responses_test.cc",
    "gateway/dialect/form/tools.cc": "tests/gateway/dialect/chat/chat_completions_test.cc",
    "gateway/replay/cache_model.cc": "tests/gateway/replay/openai_cache_test.cc",
    "gateway/replay/columns.cc": "tests/gateway/replay/replay_test.cc",
    "gateway/runtime/sharing/engine_pins.cc": "tests/e2e/shared_memories_test.py",
    "gateway/session/answer/answer_reader.cc": "tests/gateway/session/answer/chat_reader_test.cc",
    "gateway/session/conversation_store.cc": "tests/gateway/session/conversations_test.cc",
    "gateway/session/response_store.cc": "tests/gateway/session/responses_test.cc",
    "gateway/session/results/joined_chat.cc":
        "tests/gateway/session/results/joined_answer_test.cc",
    "gateway/session/results/joined_form.cc":
        "tests/gateway/session/results/joined_answer_test.cc",
    "gateway/session/results/joined_messages.cc":
        "tests/gateway/session/results/joined_answer_test.cc",
    "gateway/session/results/joined_responses.cc":
        "tests/gateway/session/results/joined_answer_test.cc",
    "gateway/dialect/gemini/gemini_request_writer.cc":
        "tests/gateway/dialect/gemini/gemini_request_test.cc",
    "gateway/dialect/reply_encoders.cc": "tests/gateway/dialect/client_needs_test.cc",
    "gateway/dialect/chat/chat_reply.cc": "tests/gateway/dialect/reply_translator_test.cc",
    "gateway/dialect/chat/chat_request.cc": "tests/gateway/dialect/request_translator_test.cc",
    "gateway/dialect/translate/dialect_fields.cc":
        "tests/gateway/dialect/request_translator_test.cc",
    "gateway/dialect/messages/messages_reply.cc": "tests/gateway/dialect/reply_translator_test.cc",
    "gateway/dialect/messages/messages_request.cc":
        "tests/gateway/dialect/request_translator_test.cc",
    "gateway/dialect/translate/reply_writer.cc": "tests/gateway/dialect/reply_translator_test.cc",
    "gateway/dialect/responses/responses_reply.cc":
        "tests/gateway/dialect/reply_translator_test.cc",
    "gateway/dialect/responses/responses_request.cc":
        "tests/gateway/dialect/request_translator_test.cc",
    "gateway/upstream/wire/channel.cc": "tests/gateway/upstream/exchange_test.cc",
    "kernels/cpu/attention.cc": "tests/kernels/conformance_attention_test.cc",
    "kernels/cpu/attention_kernels.cc": "tests/kernels/conformance_attention_test.cc",
    "kernels/cpu/matmul/matmul_kernels.cc": "tests/kernels/conformance_matmul_test.cc",
    "kernels/cpu/matmul/matmul_plane_kernels.cc": "tests/kernels/conformance_matmul_test.cc",
    "kernels/cpu/matmul/matmul_quant_kernels.cc": "tests/kernels/conformance_matmul_test.cc",
    "kernels/cpu/machine/simd_target.cc": "tests/kernels/conformance_invariance_test.cc",
    "kernels/cuda/matmul/cublas_lt.cc": "tests/kernels/cuda/matmul/matmul_test.cc",
    "kernels/cuda/matmul/matmul_few.cu": "tests/kernels/cuda/matmul/matmul_test.cc",
    "kernels/cuda/matmul/matmul_many.cu": "tests/kernels/cuda/matmul/matmul_test.cc",
    "kernels/cuda/matmul/matmul_warpgroup.cu": "tests/kernels/cuda/matmul/matmul_test.cc",
    "kernels/cuda/matmul/matmul_rows.cu": "tests/kernels/cuda/matmul/matmul_test.cc",
    "kernels/cuda/rows/embedding_tables.cu": "tests/kernels/conformance_rows_test.cc",
    "kernels/cuda/rows/row_kernels.cu": "tests/kernels/conformance_rows_test.cc",
    "kernels/experts.cc": "tests/kernels/conformance_experts_test.cc",
    "kernels/reference/reference_memory.cc": "tests/kernels/reference/reference_backend_test.cc",
    "base/ids.cc": "tests/base/digest_test.cc",
    "store/file/rocks_common.cc": "tests/store/kv/rocks_kv_database_test.cc",
    "kernels/cuda/attention/attention_bf16.cu": "tests/kernels/cuda/attention/attention_test.cc",
    "kernels/cuda/attention/attention_float.cu": "tests/kernels/cuda/attention/attention_test.cc",
    "kernels/cuda/attention/attention_e4m3.cu": "tests/kernels/cuda/attention/attention_test.cc",
    "kernels/cuda/attention/attention_half.cu": "tests/kernels/cuda/attention/attention_test.cc",
    "kernels/cuda/attention/attention_quant.cu": "tests/kernels/cuda/attention/attention_test.cc",
    "kernels/cuda/attention/kv_kernels.cu": "tests/kernels/cuda/memory/device_kv_arena_test.cc",
}
# Files that may be larger than others: path -> bytes.
LARGER_BLOBS = {
    # The model that kvgate brings along. Git keeps each version for ever: one a release.
    "engine/default_model/kvgate-default.gguf": 6_000_000,
}
# Library sources without any test: path -> reason.
SOURCES_WITHOUT_TEST = {
    "kernels/cuda/no_cuda_backend.cc": "three constants, under the names the tests link otherwise",
    "base/check.cc": "prints and aborts; each KVGATE_CHECK death test runs it",
    "base/log.cc": "formatting of lines for people; its callers' output is tested end to end",
    "base/result.cc": "names for messages; every error test reads them",
}
# Folders whose sources are described one level up.
FOLDERS_WITHOUT_README = {
    "gateway/dashboard/web": "gateway/dashboard/README.md",
    "gateway/dashboard/web/src": "gateway/dashboard/README.md",
    "gateway/dashboard/web/src/parts": "gateway/dashboard/README.md",
    "gateway/dashboard/web/src/style": "gateway/dashboard/README.md",
    "gateway/dashboard/web/src/views": "gateway/dashboard/README.md",
    "scripts/lib": "scripts/README.md",
}
# Folders under tests/ that are more than the mirror of a library folder.
TEST_FOLDERS_WITH_README = ("tests", "tests/e2e", "tests/clients", "tests/dashboard",
                            "tests/support")
# Sources that define what another folder declares: path -> (the namespace, reason).
NAMESPACES_OF_OTHERS = {
    "kernels/cuda/emulator/device-inl.cuh":
        ("kvgate::kernels::cuda::device", "what the primitives of device.cuh do on this CPU"),
}
# Classes whose methods are defined in several sources: class -> what will divide it.
CLASSES_IN_MANY_SOURCES = {
    "kvgate::grammar::schema::SchemaCompiler": "a compiler for each kind of value",
    "kvgate::jinja::Evaluator": "the evaluation of expressions, apart from that of statements",
    "kvgate::jinja::runtime::Runtime": "operators and printing, as functions over values",
    "kvgate::modelfile::GgufFile": "the joining of parts, as what opens a file",
    "kvgate::service::Service": "what is told about the gateway",
    "kvgate::store::kv::RocksKvStore": "maintenance and pins, as owners of their own records",
}
# Classes of more than 25 methods: class -> (today's number, what will divide it).
CLASSES_OF_MANY_METHODS = {
    "kvgate::engine::EngineLoop": (43, "the steps, the requests that wait and the write backs"),
    "kvgate::grammar::language::LarkParser": (30, "readers of tokens, of rules and of terminals"),
    "kvgate::grammar::mask::StateTable": (37, "the closure of items, apart from storage"),
    "kvgate::grammar::rules::Grammar": (30, "a builder, apart from the finished rules"),
    "kvgate::grammar::rules::PatternParser": (30, "the classes of characters, apart from groups"),
    "kvgate::grammar::schema::SchemaCompiler": (57, "a compiler for each kind of value"),
    "kvgate::jinja::Evaluator": (44, "expressions, apart from statements"),
    "kvgate::jinja::parse::ExpressionParser": (53, "the state of tokens, apart from the grammar"),
    "kvgate::jinja::runtime::Runtime": (44, "operators and printing, as functions over values"),
    "kvgate::kernels::Backend": (65, "one interface per group of operations, of the same names"),
    "kvgate::kernels::cpu::CpuBackend": (30, "follows kernels::Backend"),
    "kvgate::kernels::cuda::CudaBackend": (40, "follows kernels::Backend"),
    "kvgate::kv::BlockPool": (28, "the eviction queue"),
    "kvgate::prompt::rewrite::BodyWriter": (27, "the writing of tools, system and messages"),
    "kvgate::sample::Sampler": (30, "the penalties, apart from the choice"),
    "kvgate::service::Service": (29, "what is told about the gateway"),
    "kvgate::store::kv::KvIndex": (30, "the accounts of disk use"),
    "kvgate::store::kv::RocksKvStore": (55, "maintenance and pins"),
    "kvgate::store::meta::TurnStore": (37, "retention, apart from what is read and appended"),
    "kvgate::tier::StoreTier": (42, "loads and write backs"),
    "kvgate::upstream::Exchange": (29, "the head, apart from the body"),
}
