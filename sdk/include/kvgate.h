/* kvgate.h: kvgate in your process, or at the other end of a wire, for C and for bindings.
 *
 * A client is connected to a server (kvgate_connect) or is a gateway of its own (kvgate_open);
 * everything after that is the same. Requests and answers are those of the HTTP interface:
 * kvgate_call makes any of them, kvgate_chat one of /v1/chat/completions whose answer comes as
 * events. Texts are UTF-8.
 *
 * Options
 *   Set struct_size to sizeof and everything else to 0, then what you want: 0 and NULL are the
 *   defaults. A later version may add fields at the end, and takes the shorter struct too.
 * Results
 *   Each function that can fail returns a kvgate_status. With one that is not KVGATE_OK or
 *   KVGATE_END it stores an error in *error unless `error` is NULL; free it with kvgate_error_free.
 *   Out-parameters are set on KVGATE_OK only.
 * Ownership
 *   What a function stores through an out-parameter is the caller's until its own free or close
 *   function, which takes NULL too. Inputs are copied, or used only until the call returns. Strings
 *   that are returned belong to the object that they were asked of.
 * Threads
 *   A client and a kvgate_cancel may be used by any number of threads at once; a response, a stream
 *   and an error by one at a time. The library makes threads of its own for each client. It
 *   installs no signal handler, never ends the process and writes nothing to stderr. A process that
 *   has a client must not fork and go on in the child without exec.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define KVGATE_API __attribute__((visibility("default")))
#else
#define KVGATE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a program that was compiled with an older header would no longer work. */
#define KVGATE_ABI_VERSION 1

typedef struct kvgate_client kvgate_client; /* a gateway in this process, or a server's client */
typedef struct kvgate_server kvgate_server; /* the port of a gateway in this process */
typedef struct kvgate_stream kvgate_stream; /* an answer on its way */
typedef struct kvgate_response kvgate_response; /* a whole answer, or a text */
typedef struct kvgate_cancel kvgate_cancel;     /* what ends calls and streams from elsewhere */
typedef struct kvgate_error kvgate_error;       /* why something failed */

/* The version of the library, such as "0.1.0". Any thread; never freed. */
KVGATE_API const char* kvgate_version(void);
/* KVGATE_ABI_VERSION of the library that was loaded. */
KVGATE_API uint32_t kvgate_abi_version(void);

/* ---- Results ------------------------------------------------------------------------------- */

/* How a call ended. */
typedef enum kvgate_status {
  KVGATE_OK = 0,                 /* it did what was asked */
  KVGATE_END = 1,                /* the stream has ended; there is no event */
  KVGATE_AGAIN = 2,              /* nothing has come yet (kvgate_stream_try_next) */
  KVGATE_INVALID_ARGUMENT = 3,   /* 400, other 4xx: the request is wrong; see the error's field */
  KVGATE_UNAUTHENTICATED = 4,    /* 401: no key, or a wrong one */
  KVGATE_PERMISSION_DENIED = 5,  /* 403 */
  KVGATE_NOT_FOUND = 6,          /* 404: no such model, session, prefix, file */
  KVGATE_CONFLICT = 7,           /* 409: somebody else has gone on with the session */
  KVGATE_TOO_LARGE = 8,          /* 413 */
  KVGATE_CONTEXT_EXCEEDED = 9,   /* 400: the prompt does not fit into the model's context */
  KVGATE_RATE_LIMITED = 10,      /* 429; see kvgate_error_retry_after_ms */
  KVGATE_OVERLOADED = 11,        /* 503, 529: there is no room now */
  KVGATE_UNAVAILABLE = 12,       /* no server or provider was reached, or an answer broke off */
  KVGATE_DEADLINE_EXCEEDED = 13, /* timeout_ms is over, or 504 */
  KVGATE_CANCELLED = 14,         /* the kvgate_cancel was triggered, or the client was closed */
  KVGATE_INTERNAL = 15           /* other 5xx, and what should not happen */
} kvgate_status;

/* "OK", "INVALID_ARGUMENT", … Any thread; never freed. */
KVGATE_API const char* kvgate_status_name(kvgate_status status);

/* What the function that failed has returned. */
KVGATE_API kvgate_status kvgate_error_status(const kvgate_error* error);
/* One sentence for a person. */
KVGATE_API const char* kvgate_error_message(const kvgate_error* error);
/* The field of the request that is wrong, such as "messages[2].content"; "" if none is. */
KVGATE_API const char* kvgate_error_field(const kvgate_error* error);
/* The code of the HTTP interface, such as "context_length_exceeded"; "" if it has none. */
KVGATE_API const char* kvgate_error_code(const kvgate_error* error);
/* The HTTP status; 0 if there was no answer. */
KVGATE_API int32_t kvgate_error_http_status(const kvgate_error* error);
/* When a retry may succeed; 0 if that is not known. */
KVGATE_API uint32_t kvgate_error_retry_after_ms(const kvgate_error* error);
/* x-kvgate-request-id of the answer; "" without one. */
KVGATE_API const char* kvgate_error_request_id(const kvgate_error* error);
/* NULL is taken too, here and in every other function that frees or closes. */
KVGATE_API void kvgate_error_free(kvgate_error* error);

/* ---- Cancelling ---------------------------------------------------------------------------- */

/* Ends the calls and streams that it was given to, now or when it is triggered. NULL: no memory. */
KVGATE_API kvgate_cancel* kvgate_cancel_new(void);
/* Callable from any thread, again and again, and from a signal handler: no. */
KVGATE_API void kvgate_cancel_trigger(kvgate_cancel* cancel);
/* Calls and streams that have it go on, and can no longer be cancelled by it. */
KVGATE_API void kvgate_cancel_free(kvgate_cancel* cancel);

/* ---- Clients ------------------------------------------------------------------------------- */

/* How a server is reached. */
typedef struct kvgate_connect_options {
  size_t struct_size;          /* sizeof(kvgate_connect_options) */
  const char* url;             /* "http://127.0.0.1:8080", with or without /v1; required */
  const char* api_key;         /* sent as "Authorization: Bearer"; NULL: none */
  const char* ca_file;         /* PEM, for https; NULL: the system's */
  uint32_t connect_timeout_ms; /* 0: 10 s */
  uint32_t retries;            /* of requests that no server has begun with; 0: 2 */
  int32_t no_retries;          /* not 0: none, whatever `retries` says */
} kvgate_connect_options;

/* Makes a client of a server. Nothing is sent yet, so that a server may start later. Fails with
 * KVGATE_INVALID_ARGUMENT for an address or a file that cannot be used. */
KVGATE_API kvgate_status kvgate_connect(const kvgate_connect_options* options,
                                        kvgate_client** client, kvgate_error** error);

/* A gateway in this process. */
typedef struct kvgate_open_options {
  size_t struct_size;      /* sizeof(kvgate_open_options) */
  const char* config_file; /* kvgate.toml; NULL: none */
  const char* config_toml; /* the same as text; its tables replace those of the file */
  const char* model;       /* a GGUF file; NULL: as configured */
  const char* data_dir;    /* NULL: as configured */
  const char* api_key;     /* of a [[key]], or for providers that get the caller's; NULL: none */
  int32_t needs_disk;      /* not 0: fails where the data directory cannot be used */
  /* Called when a model begins to load and every 20 ms until it has, on the thread of kvgate_open.
   * NULL: not called. */
  void (*while_loading)(void* user);
  void* user; /* what while_loading is called with */
} kvgate_open_options;

/* Makes a gateway in this process: its engine, its upstreams, its data directory, no port. It takes
 * as long as the model needs to load. Without an api_key the caller is an admin of it. Fails with
 * KVGATE_INVALID_ARGUMENT for a configuration that is wrong, KVGATE_NOT_FOUND for a missing file,
 * KVGATE_UNAVAILABLE if a device or, with needs_disk, the data directory cannot be used, and
 * KVGATE_OVERLOADED if there is not enough memory. A data directory belongs to one process at a
 * time; without needs_disk a client that finds it taken keeps nothing on disk, and the log says
 * so. */
KVGATE_API kvgate_status kvgate_open(const kvgate_open_options* options, kvgate_client** client,
                                     kvgate_error** error);

/* Ends what is under way with KVGATE_CANCELLED, also where other threads wait for it, writes the
 * last KV to disk and waits for the library's threads. Its servers must have been closed, and no
 * function is called with it any more. Streams that are left have what came before, then
 * KVGATE_CANCELLED, and are freed as ever, before or after. */
KVGATE_API void kvgate_close(kvgate_client* client);

/* ---- Any request --------------------------------------------------------------------------- */

/* A header of a request. */
typedef struct kvgate_header {
  const char* name;  /* in any case */
  const char* value; /* one line */
} kvgate_header;

/* How one request is made. */
typedef struct kvgate_call_options {
  size_t struct_size;           /* sizeof(kvgate_call_options) */
  uint32_t timeout_ms;          /* for the whole answer; 0: none */
  kvgate_cancel* cancel;        /* NULL: none; it may be freed while the call is under way */
  const kvgate_header* headers; /* further ones, such as x-kvgate-session */
  size_t num_headers;           /* how many stand in `headers` */
} kvgate_call_options;

/* Makes a request of the HTTP interface and waits for its whole answer: "GET",
 * "/kvgate/v1/stats". `body` is JSON and may be NULL if body_size is 0. An answer of another status
 * than 2xx is an error. `options` may be NULL. */
KVGATE_API kvgate_status kvgate_call(kvgate_client* client, const char* method, const char* path,
                                     const char* body, size_t body_size,
                                     const kvgate_call_options* options, kvgate_response** response,
                                     kvgate_error** error);

/* The answer's body, with a 0 behind it. `size` may be NULL. */
KVGATE_API const char* kvgate_response_body(const kvgate_response* response, size_t* size);
/* The first header of that name, in any case; NULL if there is none. */
KVGATE_API const char* kvgate_response_header(const kvgate_response* response, const char* name);
/* 200, or another 2xx. A value of kvgate_json_find has 0. */
KVGATE_API int32_t kvgate_response_http_status(const kvgate_response* response);
/* With it go the strings that it returned. */
KVGATE_API void kvgate_response_free(kvgate_response* response);

/* ---- Chat ---------------------------------------------------------------------------------- */

/* Says which fields of a kvgate_event count. */
typedef enum kvgate_event_kind {
  KVGATE_EVENT_TEXT = 1,       /* `text`: a piece of the answer */
  KVGATE_EVENT_REASONING = 2,  /* `text`: a piece of what the model thinks */
  KVGATE_EVENT_TOOL_DELTA = 3, /* `text`: a piece of a call's arguments; tool_index says whose */
  KVGATE_EVENT_TOOL_CALL = 4,  /* a whole call: tool_id, tool_name; `text`: its arguments, JSON */
  KVGATE_EVENT_FINISH = 5,     /* `text`: why: "stop", "length", "tool_calls", "content_filter" */
  KVGATE_EVENT_USAGE = 6,      /* the counts of tokens */
  KVGATE_EVENT_EXPLAIN = 7     /* `text`: JSON, if x-kvgate-explain: 1 was sent */
} kvgate_event_kind;

/* Set struct_size before each call. Strings end with a 0 and are valid until the stream's next call
 * or its end. */
typedef struct kvgate_event {
  size_t struct_size; /* sizeof(kvgate_event) */
  int32_t kind;   /* kvgate_event_kind; kinds that you do not know can come from a later library */
  int32_t choice; /* which answer it belongs to, where a request asks for several (`n`) */
  const char* text;      /* "" where its kind has none */
  size_t text_size;      /* bytes of `text`, without the 0 at its end */
  int32_t tool_index;    /* which call of the answer, from 0 */
  const char* tool_id;   /* what the result of the call refers to */
  const char* tool_name; /* the function that is called */
  /* With KVGATE_EVENT_USAGE; -1: not known. */
  int64_t prompt_tokens;      /* with the cached ones */
  int64_t cached_tokens;      /* of the prompt: read from a cache */
  int64_t cache_write_tokens; /* of the prompt: written to a cache */
  int64_t output_tokens;      /* with those of reasoning */
  int64_t reasoning_tokens;   /* of the output: what the model thought */
} kvgate_event;

/* Begins a chat completion. `request` is the JSON body of POST /v1/chat/completions; it is always
 * streamed and its usage reported. It returns at once; what goes wrong is the stream's to say. */
KVGATE_API kvgate_status kvgate_chat(kvgate_client* client, const char* request,
                                     size_t request_size, const kvgate_call_options* options,
                                     kvgate_stream** stream, kvgate_error** error);
/* Waits for the next event. KVGATE_END: the answer is complete. After an error there are no more
 * events. */
KVGATE_API kvgate_status kvgate_stream_next(kvgate_stream* stream, kvgate_event* event,
                                            kvgate_error** error);
/* Does not wait: KVGATE_AGAIN if there is nothing yet. */
KVGATE_API kvgate_status kvgate_stream_try_next(kvgate_stream* stream, kvgate_event* event,
                                                kvgate_error** error);
/* Calls `ready` once, when try_next has something else to say than KVGATE_AGAIN: at once on this
 * thread if it has that now, else later on a thread of the library, which must not wait in it.
 * Until then nothing else may be called with the stream but this function and kvgate_stream_free. A
 * second call replaces the first; NULL: nothing is called any more. */
KVGATE_API void kvgate_stream_on_ready(kvgate_stream* stream, void (*ready)(void* user),
                                       void* user);
/* A header of the answer, such as x-kvgate-request-id or x-kvgate-compaction, once an event or the
 * end has come; NULL if there is none. */
KVGATE_API const char* kvgate_stream_header(const kvgate_stream* stream, const char* name);
/* Ends the answer if it is under way. No call of `ready` is under way or comes after it. */
KVGATE_API void kvgate_stream_free(kvgate_stream* stream);

/* ---- Serving ------------------------------------------------------------------------------- */

/* Serves the HTTP interface of an embedded client on "ADDRESS:PORT"; port 0 picks one. One server
 * a client. Fails with KVGATE_INVALID_ARGUMENT for a client that is connected to another server or
 * an address that needs a [[key]], and with KVGATE_UNAVAILABLE if the address is taken. */
KVGATE_API kvgate_status kvgate_listen(kvgate_client* client, const char* address,
                                       kvgate_server** server, kvgate_error** error);
/* "http://127.0.0.1:8080" */
KVGATE_API const char* kvgate_server_url(const kvgate_server* server);
/* Lets running answers end for at most drain_ms, then closes. The client goes on. */
KVGATE_API void kvgate_server_close(kvgate_server* server, uint32_t drain_ms);

/* ---- Log and JSON -------------------------------------------------------------------------- */

/* How much a line of the log matters. */
typedef enum kvgate_log_level {
  KVGATE_LOG_DEBUG = 0,   /* what happens inside */
  KVGATE_LOG_INFO = 1,    /* what was done */
  KVGATE_LOG_WARNING = 2, /* something is missing, and it goes on without */
  KVGATE_LOG_ERROR = 3    /* something that was asked for cannot be done */
} kvgate_log_level;

/* Where the lines of all clients of this process go; at first nowhere. `log` is called on any
 * thread, one call at a time, and must not call this library. No prompt and no secret stands in a
 * line. NULL: nowhere. */
KVGATE_API void kvgate_set_log(kvgate_log_level level,
                               void (*log)(void* user, kvgate_log_level level, const char* line),
                               void* user);

/* Finds a value in JSON text by its pointer (RFC 6901), "/data/0/id". A string comes as its text,
 * everything else as JSON, in a response of its own. KVGATE_NOT_FOUND: there is none;
 * KVGATE_INVALID_ARGUMENT: it is no JSON. It is meant for small answers: each call reads the text
 * anew. */
KVGATE_API kvgate_status kvgate_json_find(const char* json, size_t size, const char* pointer,
                                          kvgate_response** value, kvgate_error** error);

#ifdef __cplusplus
} /* extern "C" */
#endif
