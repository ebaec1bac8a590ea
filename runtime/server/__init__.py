"""The HTTP server over one engine: OpenAI's completions, llama-server's native routes, a web page, metrics."""
