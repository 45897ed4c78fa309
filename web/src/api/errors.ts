/**
 * Why a request to the management API failed, sorted by what a person can do about it.
 */

/**
 * - `unreachable`: no answer at all (server stopped, network gone, deadline passed)
 * - `unauthorized`: the API wants a token (401)
 * - `forbidden`: the API does not talk to this address (403)
 * - `not_found`: the thing asked for is gone (404)
 * - `server`: any other status, or an answer that is not what the API promises
 */
export type ApiErrorKind = 'unreachable' | 'unauthorized' | 'forbidden' | 'not_found' | 'server';

export class ApiError extends Error {
  readonly kind: ApiErrorKind;
  readonly status: number | null;
  /** The API's own `error.code`, when it gave one. */
  readonly code: string | null;

  constructor(kind: ApiErrorKind, message: string, status: number | null = null, code: string | null = null) {
    super(message);
    this.name = 'ApiError';
    this.kind = kind;
    this.status = status;
    this.code = code;
  }
}

/** Kind of error that an HTTP status stands for. */
export function kindOfStatus(status: number): ApiErrorKind {
  switch (status) {
    case 401:
      return 'unauthorized';
    case 403:
      return 'forbidden';
    case 404:
      return 'not_found';
    case 502:
    case 503:
    case 504:
      return 'unreachable';
    default:
      return 'server';
  }
}

/** Any thrown value as an ApiError, so that callers handle one type. */
export function asApiError(cause: unknown): ApiError {
  if (cause instanceof ApiError) return cause;
  return new ApiError('server', cause instanceof Error ? cause.message : String(cause));
}
