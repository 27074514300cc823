#!/usr/bin/env python3
"""Spans and metrics for an OpenTelemetry collector: what they say of forwarded and local requests,
whose children spans are, and that a collector which hangs, refuses, fails or is not there costs no
request anything."""

import json
import os
import socket
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from case import Case, slowness, wait_until  # noqa: E402
from otlp_collector import Collector  # noqa: E402
from provider_simulator import Simulator  # noqa: E402

KEY = {"Authorization": "Bearer sk-test"}
SECRET_WORDS = "words that nobody else may read"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALLERS_SPAN = f"00-{TRACE}-{PARENT}"


class TelemetryTest(Case):
    def setUp(self):
        super().setUp()
        self.provider = Simulator().__enter__()
        self.addCleanup(self.provider.__exit__)
        self.collector = Collector().__enter__()
        self.addCleanup(self.collector.__exit__)

    def gateway(self, more="", endpoint=None):
        return self.serve(arguments=["--config", str(self.config(f"""
[telemetry]
endpoint = "{endpoint or self.collector.url}"
interval_seconds = 1
timeout_seconds = 1
{more}
"""))])

    def config(self, telemetry):
        path = self.folder / "kvgate.toml"
        path.write_text(f"""
{telemetry}
[[upstream]]
name = "main"
dialect = "anthropic"
base_url = "{self.provider.url}"
models = ["claude-*"]
[[upstream]]
name = "open"
base_url = "{self.provider.url}/v1"
models = ["gpt-*"]
""")
        return path

    def ask(self, running, stream=True, text=SECRET_WORDS, model="gpt-5.5", headers=None):
        body = {"model": model, "stream": stream, "max_tokens": 40,
                **({"stream_options": {"include_usage": True}} if stream else {}),
                "messages": [{"role": "user", "content": text}]}
        reply = running.send("/v1/chat/completions", body, {**KEY, **(headers or {})})
        return self.assert_ok(reply)

    def span_of(self, reply):
        wanted = reply.headers["x-kvgate-request-id"]

        def find():
            return next((span for span in self.collector.spans()
                         if span["attributes"]["kvgate.request_id"] == wanted), None)

        return wait_until(find, f"the span of {wanted}")

    def value(self, running, name):
        lines = running.get("/metrics").body.decode().splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(name + " "))

    def test_a_forwarded_request_is_a_span_with_its_usage_and_no_text(self):
        running = self.gateway()
        text = "cached words " * 2000
        body = {"model": "claude-sonnet-4-5", "stream": True, "max_tokens": 40,
                "system": [{"type": "text", "text": text,
                            "cache_control": {"type": "ephemeral"}}],
                "messages": [{"role": "user", "content": SECRET_WORDS}]}
        headers = {"x-api-key": "sk-test", "anthropic-version": "2023-06-01"}
        for _ in range(2):
            reply = self.assert_ok(running.send("/v1/messages", body, headers))
        span = self.span_of(reply)
        record = self.record_of(running, reply.headers["x-kvgate-request-id"])
        said = span["attributes"]
        usage = record["usage"]
        self.assertGreater(usage["cache_read_tokens"], 1000)
        self.assertEqual(said["gen_ai.operation.name"], "chat")
        self.assertEqual(said["gen_ai.provider.name"], "anthropic")
        self.assertEqual(said["gen_ai.request.model"], "claude-sonnet-4-5")
        self.assertEqual(said["gen_ai.usage.input_tokens"], usage["input_tokens"])
        self.assertEqual(said["gen_ai.usage.output_tokens"], usage["output_tokens"])
        self.assertEqual(said["gen_ai.usage.cache_read.input_tokens"], usage["cache_read_tokens"])
        written = usage["cache_write_tokens"] + usage["cache_write_1h_tokens"]
        self.assertEqual(said["gen_ai.usage.cache_write.input_tokens"], written)
        self.assertEqual(said["gen_ai.usage.cache_creation.input_tokens"], written)
        self.assertAlmostEqual(said["gen_ai.usage.cost"], record["cost"]["nanodollars"] / 1e9)
        self.assertIs(said["gen_ai.request.stream"], True)
        self.assertAlmostEqual(said["gen_ai.response.time_to_first_chunk"],
                               record["timings"]["ttft_us"] / 1e6)
        self.assertEqual(said["http.response.status_code"], 200)
        self.assertEqual(said["gen_ai.conversation.id"], record["conversation"]["id"])
        self.assertEqual(span["kind"], 3)
        self.assertRegex(span["traceId"], "^[0-9a-f]{32}$")
        self.assertRegex(span["spanId"], "^[0-9a-f]{16}$")
        lasted = int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])
        self.assertEqual(lasted, record["timings"]["total_us"] * 1000)
        whole = json.dumps(self.collector.requests)
        self.assertNotIn(SECRET_WORDS, whole)
        self.assertNotIn("sk-test", whole)

    def asked_with(self, running, traceparent, **arguments):
        """The reply, and the traceparent that its upstream got."""
        headers = {"traceparent": traceparent, "tracestate": "vendor=opaque"}
        reply = self.ask(running, headers=headers, **arguments)
        sent = self.provider.requests[-1]
        self.assertEqual([value for name, value in sent.headers if name.lower() == "tracestate"],
                         ["vendor=opaque"])
        found = [value for name, value in sent.headers if name.lower() == "traceparent"]
        self.assertEqual(len(found), 1, found)
        return reply, found[0]

    def test_a_span_is_the_callers_child_and_the_parent_of_what_the_upstream_does(self):
        running = self.gateway()
        # A later version is read by its first four fields.
        for given in (CALLERS_SPAN + "-01", "cc" + CALLERS_SPAN[2:] + "-01-more"):
            with self.subTest(traceparent=given):
                reply, sent = self.asked_with(running, given)
                span = self.span_of(reply)
                self.assertEqual(span["traceId"], TRACE)
                self.assertEqual(span["parentSpanId"], PARENT)
                self.assertEqual(sent, f"00-{TRACE}-{span['spanId']}-01")
                self.assertNotEqual(span["spanId"], PARENT)

    def test_a_local_request_is_the_callers_child(self):
        running = self.gateway()
        reply = self.assert_ok(running.chat([{"role": "user", "content": "hello"}], max_tokens=4,
                                            headers={"traceparent": CALLERS_SPAN + "-01"}))
        span = self.span_of(reply)
        self.assertEqual((span["traceId"], span["parentSpanId"]), (TRACE, PARENT))
        self.assertEqual(self.provider.requests, [])

    def test_an_invalid_traceparent_is_ignored(self):
        running = self.gateway()
        for given in ("ff" + CALLERS_SPAN[2:] + "-01", f"00-{'0' * 32}-{PARENT}-01",
                      f"00-{TRACE}-{'0' * 16}-01", CALLERS_SPAN.upper() + "-01",
                      CALLERS_SPAN + "-01-more", "garbage"):
            with self.subTest(traceparent=given):
                reply, sent = self.asked_with(running, given)
                span = self.span_of(reply)
                self.assertNotIn("parentSpanId", span)
                self.assertEqual(sent, f"00-{span['traceId']}-{span['spanId']}-01")
                self.assertNotEqual(span["traceId"], TRACE)

    def test_what_the_caller_does_not_sample_counts_and_is_no_span(self):
        running = self.gateway()
        reply, sent = self.asked_with(running, CALLERS_SPAN + "-00")
        self.assertRegex(sent, f"^00-{TRACE}-[0-9a-f]{{16}}-00$")
        self.assertNotIn(PARENT, sent)
        self.span_of(self.ask(running))  # it was asked for later, and has come
        wanted = reply.headers["x-kvgate-request-id"]
        self.assertNotIn(wanted, [span["attributes"]["kvgate.request_id"]
                                  for span in self.collector.spans()])

        def counted():
            found = self.collector.metrics().get("gen_ai.client.operation.duration", [])
            return sum(int(point["count"]) for point in found) == 2

        wait_until(counted, "both operations")
        self.assertEqual(self.value(running, "kvgate_telemetry_dropped_total"), 0)

    def test_without_spans_a_traceparent_passes_as_it_came(self):
        given = CALLERS_SPAN + "-01"
        for more in ("spans = false", "no telemetry"):
            with self.subTest(more):
                if more == "no telemetry":
                    running = self.serve(arguments=["--config", str(self.config(""))])
                else:
                    running = self.gateway(more)
                _, sent = self.asked_with(running, given)
                self.assertEqual(sent, given)
                self.ask(running)
                self.assertEqual(self.provider.requests[-1].header("traceparent"), "")
                running.terminate()

    def test_metrics_sum_what_requests_used(self):
        running = self.gateway()
        for _ in range(3):
            self.ask(running)
        local = running.chat([{"role": "user", "content": "hello"}], max_tokens=8)
        self.assert_ok(local)

        def counted():
            found = self.collector.metrics().get("gen_ai.client.operation.duration", [])
            return sum(int(point["count"]) for point in found) == 4

        wait_until(counted, "four operations")
        found = self.collector.metrics()
        by_provider = {}
        for point in found["gen_ai.client.inference.usage.output_tokens"]:
            self.assertEqual(point["attributes"]["gen_ai.token.modality"], "text")
            by_provider[point["attributes"]["gen_ai.provider.name"]] = int(point["asInt"])
        records = running.get("/kvgate/v1/requests").json["data"]
        forwarded = sum(record["usage"]["output_tokens"] for record in records
                        if record["upstream"] == "open")
        self.assertEqual(by_provider, {"openai": forwarded, "kvgate": 8})
        self.assertEqual(len(found["gen_ai.server.time_to_first_token"]), 1)
        for name in ("gen_ai.client.operation.duration", "gen_ai.client.token.usage",
                     "gen_ai.client.operation.time_to_first_chunk"):
            for point in found[name]:
                self.assertEqual(len(point["bucketCounts"]), len(point["explicitBounds"]) + 1)
                self.assertEqual(sum(map(int, point["bucketCounts"])), int(point["count"]))

    def test_headers_come_from_the_environment(self):
        os.environ["KVGATE_TEST_OTLP"] = "authorization=Bearer abc, x-team=red"
        self.addCleanup(os.environ.pop, "KVGATE_TEST_OTLP")
        running = self.gateway('headers_env = "KVGATE_TEST_OTLP"\nservice_name = "edge"')
        self.span_of(self.ask(running))
        _, headers, body = self.collector.requests[0]
        lower = {name.lower(): value for name, value in headers.items()}
        self.assertEqual(lower["authorization"], "Bearer abc")
        self.assertEqual(lower["x-team"], "red")
        resource = body["resourceSpans"][0]["resource"]["attributes"]
        self.assertIn({"key": "service.name", "value": {"stringValue": "edge"}}, resource)

    def test_an_error_is_a_span_with_its_type(self):
        running = self.gateway()
        self.provider.faults.append("status:429:1")
        reply = running.send("/v1/chat/completions",
                             {"model": "gpt-5.5", "messages": [{"role": "user", "content": "a"}]},
                             KEY)
        self.assertEqual(reply.status, 429)
        span = self.span_of(reply)
        self.assertEqual(span["attributes"]["error.type"], "429")
        self.assertEqual(span["status"]["code"], 2)

    def test_a_collector_that_fails_is_asked_again_and_nothing_is_lost(self):
        running = self.gateway()
        for behaviour in (503, "hang"):
            with self.subTest(behaviour=behaviour):
                asked = self.collector.num_asked
                self.collector.behave(behaviour)
                reply = self.ask(running)
                wait_until(lambda: self.collector.num_asked > asked, "the collector is asked")
                self.collector.behave("take")
                self.span_of(reply)
        self.assertGreater(self.value(running, "kvgate_telemetry_failures_total"), 0)
        self.assertEqual(self.value(running, "kvgate_telemetry_dropped_total"), 0)

    def test_what_is_refused_for_good_is_dropped_and_counted(self):
        running = self.gateway()
        self.collector.behave(400)
        self.ask(running)
        wait_until(lambda: self.value(running, "kvgate_telemetry_dropped_total") == 1, "dropped")
        self.collector.behave("partial")
        self.ask(running)
        wait_until(lambda: self.value(running, "kvgate_telemetry_dropped_total") == 2, "rejected")

    def test_a_full_queue_drops_and_delays_nobody(self):
        # Nobody listens there: a connection is refused at once, or hangs where a backlog is full.
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            port = listener.getsockname()[1]
            running = self.gateway("queue = 4", endpoint=f"http://127.0.0.1:{port}")
            begin = time.monotonic()
            for _ in range(40):
                self.ask(running, stream=False)
            spent = time.monotonic() - begin
            self.assertLess(spent, 20 * slowness(running), "40 requests")
            wait_until(lambda: self.value(running, "kvgate_telemetry_dropped_total") > 0, "drops")

    def test_what_waits_is_sent_when_the_server_ends(self):
        running = self.gateway()
        reply = self.ask(running)
        self.record_of(running, reply.headers["x-kvgate-request-id"])
        self.assertEqual(running.terminate(), 0)
        self.span_of(reply)

    def test_a_collector_that_hangs_does_not_hold_up_the_end(self):
        running = self.gateway()
        self.collector.behave("hang")
        self.ask(running)
        wait_until(lambda: self.collector.num_asked > 0, "the collector is asked")
        begin = time.monotonic()
        self.assertEqual(running.terminate(timeout=60), 0)
        self.assertLess(time.monotonic() - begin, 25)


if __name__ == "__main__":
    unittest.main()
