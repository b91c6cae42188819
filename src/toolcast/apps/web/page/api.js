// Requests to the server. The token of the page's address is sent with each.

const token = new URLSearchParams(location.search).get("token") ?? "";

// An error of the server, or of the network, which has the status 0.
export class ServerError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// Return the relative URL of `path`, with the token: for requests that cannot have headers.
export function url(path, query = {}) {
  return `${path}?${new URLSearchParams({ token, ...query })}`;
}

// Send a request, and resolve to the JSON of its response. `body` is sent as JSON, except for form data.
export async function request(path, { method = "GET", body = undefined, signal = undefined } = {}) {
  const headers = { Authorization: `Bearer ${token}` };
  const isForm = body instanceof FormData;
  if (body !== undefined && !isForm) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body === undefined || isForm ? body : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServerError(method === "GET" ? "Cannot reach the server." : "Your last action did not reach it: nothing was sent.", 0);
  }
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw new ServerError(answer?.error ?? `The server answered with status ${response.status}.`, response.status);
  return answer ?? {};
}
