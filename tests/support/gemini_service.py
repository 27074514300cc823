"""The paths of Gemini's API below /v1beta/: credentials, contents, counts, models, explicit caches.
No sockets.
"""

import datetime
import functools
import json
import re
import time
import urllib.parse

import gemini_dialect
import preserved_thinking
import prompt_cache
from gemini_request import NO_CONTENTS, check, check_contents, must, read, violation
from openai_dialect import id_of
from prompt_cache import BadRequest, canonical

JSON = [("content-type", "application/json; charset=UTF-8")]
EVENTS = [("content-type", "text/event-stream")]
TTL_SECONDS = 3600
NO_CACHE = "CachedContent not found (or permission denied)"
IN_THE_CACHE = ("CachedContent can not be used with GenerateContent request setting "
                "system_instruction, tools or tool_config.\n\nProposed fix: move those values to "
                "CachedContent from GenerateContent request.")


def query_of(request):
    return dict(urllib.parse.parse_qsl(request.query))


def is_sse(request):
    return query_of(request).get("alt") == "sse"


def error_text(request, *error):
    """Where an array is asked for, an error is one of its elements too."""
    body = gemini_dialect.error_body(*error)
    is_array = request.path.endswith(":streamGenerateContent") and not is_sse(request)
    return json.dumps([body] if is_array and request.status == 0 else body)


def framing(request):
    """(how an event is written, what ends the stream): events, or a JSON array without alt=sse."""
    if is_sse(request):
        return lambda _, data: f"data: {data}\r\n\r\n", ""
    begun = []

    def element(_, data):
        begun.append(data)
        return ("[" if len(begun) == 1 else ",\r\n") + data
    return element, "]\n"


def credential_of(request):
    key = request.header("x-goog-api-key") or query_of(request).get("key")
    if not key and request.header("authorization"):
        raise BadRequest("Request had invalid authentication credentials. Expected OAuth 2 access "
                         "token, login cookie or other valid authentication credential.",
                         status=401)
    if not key:
        raise BadRequest("Method doesn't allow unregistered callers (callers without established "
                         "identity). Please use API Key or other form of API consumer identity to "
                         "call this API.", status=403)
    if "invalid" in key:
        raise BadRequest("API key not valid. Please pass a valid API key.", [
            {"@type": gemini_dialect.TYPES + "ErrorInfo", "reason": "API_KEY_INVALID",
             "domain": "googleapis.com",
             "metadata": {"service": "generativelanguage.googleapis.com"}}])
    return key


def known_model(name, method="generateContent"):
    if not gemini_dialect.is_known(name):
        raise BadRequest(f"models/{name} is not found for API version v1beta, or is not supported "
                         f"for {method}. Call ListModels to see the list of available models and "
                         "their supported methods.", status=404)
    return name


def seconds_of(text):
    if not re.fullmatch(r"\d+(\.\d+)?s", text):
        raise violation(f"Invalid value at 'cached_content.ttl' (Duration), \"{text}\"",
                        "cached_content.ttl")
    return float(text[:-1])


def stamp(seconds):
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def replied(value):
    return 200, JSON, json.dumps(value, ensure_ascii=False).encode(), None


class Service:
    def __init__(self, store, now):
        self._store, self._now = store, now
        self._epoch = time.time() - time.monotonic()  # what stamps are said in
        self._caches = {}  # name: {entry, body, end, credential}

    def answer(self, request, checks_thinking):
        """(status, headers, body, None), or (200, headers, None, events)."""
        credential = credential_of(request)
        path = urllib.parse.unquote(request.path.removeprefix("/v1beta/"))
        if path == "cachedContents" or path.startswith("cachedContents/"):
            return self._cached_contents(request, path, credential)
        if request.method in ("GET", "HEAD"):
            return self._models(request, path)
        found = re.fullmatch(r"models/([^/:]+):(\w+)", path)
        makers = {"generateContent": self._generate,
                  "streamGenerateContent": functools.partial(self._generate, streams=True),
                  "countTokens": self._count}
        if request.method != "POST" or not found or found[2] not in makers:
            raise BadRequest("Requested entity was not found.", status=404)
        model = known_model(found[1], found[2])
        if "json" not in request.header("content-type", "application/json"):
            raise BadRequest("Invalid JSON payload received. Unknown content type.")
        return makers[found[2]](request, model, credential, checks_thinking)

    # --- contents --------------------------------------------------------------------------------

    def _generate(self, request, model, credential, checks_thinking, streams=False):
        body = read(self._json(request), "GenerateContentRequest")
        whole, entry = self._with_cache(body, model, credential)
        check(whole, model)
        if checks_thinking and gemini_dialect.thinks(model, whole):
            preserved_thinking.check_gemini(whole["contents"], model)
        prompt, cached, keep = prompt_cache.gemini_usage(self._store, whole, model, credential)
        if request.header("x-sim-implicit") == "off":
            cached = 0  # its own cache is best effort: it misses
        counts = prompt, max(cached, entry["usageMetadata"]["totalTokenCount"] if entry else 0)
        words = int(request.header("x-sim-words", "8"))
        make = gemini_dialect.generate_events if streams else gemini_dialect.generate
        answer = make(whole, model, counts, words)
        # From here on the answer has begun, and what was written can be read.
        for key, ttl in keep:
            self._store.put(key, ttl)
        if streams:
            return 200, EVENTS if is_sse(request) else JSON, None, answer
        return replied(answer)

    def _count(self, request, model, credential, _):
        body = read(self._json(request), "CountTokensRequest")
        asked = body.get("generateContentRequest", {})
        if "contents" in body and asked:
            raise BadRequest("Only one of contents and generate_content_request may be set.")
        whole, entry = self._with_cache(asked or body, model, credential)
        check_contents(whole)
        prompt, _, _ = prompt_cache.gemini_usage(self._store, whole, model, credential)
        return replied(gemini_dialect.count(
            (prompt, entry["usageMetadata"]["totalTokenCount"] if entry else 0)))

    def _with_cache(self, body, model, credential):
        """(the request with what its explicit cache holds in front, that cache or None)."""
        if "cachedContent" not in body:
            return body, None
        must(body.get("contents"), NO_CONTENTS)
        kept = self._kept(body["cachedContent"], credential)
        if any(name in body for name in ("systemInstruction", "tools", "toolConfig")):
            raise BadRequest(IN_THE_CACHE)
        if kept["entry"]["model"] != f"models/{model}":
            raise BadRequest(f"Model used by GenerateContent request (models/{model}) and "
                             f"CachedContent ({kept['entry']['model']}) has to be the same.")
        whole = {**kept["body"], **{key: value for key, value in body.items()
                                    if key not in ("cachedContent", "contents")}}
        whole["contents"] = kept["body"].get("contents", []) + body.get("contents", [])
        return whole, kept["entry"]

    @staticmethod
    def _json(request):
        try:
            return request.json()
        except ValueError as error:
            raise BadRequest(f"Invalid JSON payload received. {error}") from error

    # --- models ----------------------------------------------------------------------------------

    @staticmethod
    def _models(request, path):
        if path == "models":
            query = query_of(request)
            begin, size = int(query.get("pageToken") or 0), int(query.get("pageSize") or 50)
            found = {"models": [gemini_dialect.model_entry(name)
                                for name in gemini_dialect.MODELS[begin:begin + size]]}
            if begin + size < len(gemini_dialect.MODELS):
                found["nextPageToken"] = str(begin + size)
            return replied(found)
        name = path.removeprefix("models/")
        if not path.startswith("models/"):
            raise BadRequest("Requested entity was not found.", status=404)
        return replied(gemini_dialect.model_entry(known_model(name)))

    # --- explicit caches -------------------------------------------------------------------------

    def _kept(self, name, credential):
        kept = self._caches.get(name)
        if kept is None or kept["credential"] != credential or kept["end"] <= self._now():
            raise BadRequest(NO_CACHE, status=403)
        return kept

    def _cached_contents(self, request, path, credential):
        if path == "cachedContents" and request.method == "POST":
            return self._make_cache(request, credential)
        if path == "cachedContents":
            mine = [kept["entry"] for kept in self._caches.values()
                    if kept["credential"] == credential and kept["end"] > self._now()]
            return replied({"cachedContents": mine} if mine else {})
        kept = self._kept(path, credential)
        if request.method == "PATCH":
            given = read(self._json(request), "CachedContent")
            if set(given) - {"name", "ttl", "expireTime"}:
                raise BadRequest("CachedContent: only ttl and expire_time can be updated.")
            self._set_end(kept, given)
        elif request.method == "DELETE":
            del self._caches[path]
            return replied({})
        return replied(kept["entry"])

    def _make_cache(self, request, credential):
        given = read(self._json(request), "CachedContent")
        model = known_model(given.get("model", "").removeprefix("models/"), "createCachedContent")
        body = {key: given[key] for key in ("contents", "systemInstruction", "tools", "toolConfig")
                if key in given}
        if body.get("contents"):
            check_contents(body)
        tokens = prompt_cache.count_tokens(prompt_cache.gemini_text(body))
        least = prompt_cache.gemini_minimum(model)
        if tokens < least:
            raise BadRequest(f"Cached content is too small. total_token_count={tokens}, "
                             f"min_total_token_count={least}")
        name = "cachedContents/" + id_of("", {"at": canonical(given), "n": len(self._caches)})
        now = stamp(self._epoch + self._now())
        entry = {"name": name, "model": f"models/{model}",
                 "displayName": given.get("displayName", ""), "createTime": now,
                 "updateTime": now, "usageMetadata": {"totalTokenCount": tokens}}
        kept = {"entry": entry, "body": body, "credential": credential}
        self._set_end(kept, given)
        self._caches[name] = kept
        return replied(entry)

    def _set_end(self, kept, given):
        if "ttl" in given and "expireTime" in given:
            raise BadRequest("ttl and expire_time are of one oneof field 'expiration'.")
        end = self._now() + TTL_SECONDS
        if "ttl" in given:
            end = self._now() + seconds_of(given["ttl"])
        elif "expireTime" in given:
            moment = datetime.datetime.fromisoformat(given["expireTime"].replace("Z", "+00:00"))
            end = moment.timestamp() - self._epoch
        kept["end"] = end
        kept["entry"].update(expireTime=stamp(self._epoch + end),
                             updateTime=stamp(self._epoch + self._now()))
