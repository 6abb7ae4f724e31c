// OAuth from the client's side: device login (RFC 8628), refresh, revocation (RFC 7009). Tokens are never printed.
// Using a refresh token spends it, so a refresh runs under the lock of the credentials file and stores the result
// before releasing it: if two concurrent commands spent the same token, the login would end for both.

import {
  CLIENT_ID,
  DEVICE_GRANT,
  DeviceAuthorization,
  OauthError,
  TokenAnswer,
} from '@berth/shared/api'
import { CLIENT } from '../limits/client.ts'
import { CliError, EXIT } from '../terminal/exit.ts'
import { parseAnswer } from './api.ts'
import { updateCredentials } from './credentials.ts'
import { type Answer, ask, type Connection, type RequestOptions } from './http.ts'
import { ApiFailure, refusal } from './problem.ts'

type Form = Record<string, string>

/** These endpoints need no token, so none is sent. */
const post = (connection: Connection, path: string, form: Form, more: RequestOptions = {}) =>
  ask({ ...connection, token: null, renew: undefined }, 'POST', path, {
    ...more,
    form: { client_id: CLIENT_ID, ...form },
  })

function errorOf(answer: Answer): { error: string; error_description: string } | undefined {
  try {
    const parsed = OauthError.safeParse(JSON.parse(answer.text))
    return parsed.success ? parsed.data : undefined
  } catch {
    return undefined
  }
}

function explain(connection: Connection, path: string, answer: Answer): CliError {
  const error = errorOf(answer)
  if (error) return new CliError(EXIT.error, error.error_description)
  const { baseUrl, io } = connection
  return refusal({ baseUrl, method: 'POST', path, now: io.now(), ...answer })
}

export async function startDeviceLogin(
  connection: Connection,
  asked: { scopes: readonly string[]; name: string },
): Promise<DeviceAuthorization> {
  const path = '/api/oauth/device_authorization'
  const form = { scope: asked.scopes.join(' '), device_name: asked.name }
  const answer = await post(connection, path, form)
  if (answer.status === 404) {
    throw new CliError(
      EXIT.error,
      'this server has no device login',
      `with a token: berth login --with-token --url ${connection.baseUrl} < token-file`,
    )
  }
  if (answer.status !== 200) throw explain(connection, path, answer)
  return parseAnswer(answer, `POST ${path}`, DeviceAuthorization).value
}

const ENDED: Record<string, string> = {
  access_denied: 'the login was denied in the browser',
  expired_token: 'the login was not approved in time',
}

/** Polls until the user decided; a lost connection is not a decision. */
export async function awaitApproval(
  connection: Connection,
  started: DeviceAuthorization,
): Promise<TokenAnswer> {
  const { io } = connection
  const path = '/api/oauth/token'
  const quick = Number(io.env.BERTH_POLL_MS)
  let intervalMs = quick > 0 ? quick : started.interval * 1_000
  const endsAt = io.now() + started.expires_in * 1_000
  while (io.now() < endsAt) {
    await io.sleep(intervalMs)
    const form = { grant_type: DEVICE_GRANT, device_code: started.device_code }
    const answer = await post(connection, path, form).catch((error: unknown) => {
      if (error instanceof ApiFailure && error.kind === 'no_answer') return undefined
      throw error
    })
    if (!answer) continue
    if (answer.status === 200) return parseAnswer(answer, `POST ${path}`, TokenAnswer).value
    const error = errorOf(answer)?.error
    if (error === 'authorization_pending' || answer.status >= 500) continue
    if (error === 'slow_down' || answer.status === 429) {
      intervalMs += quick > 0 ? quick : CLIENT.slowDownMs
      continue
    }
    const ended = ENDED[error ?? '']
    if (ended) throw new CliError(EXIT.notLoggedIn, ended, 'start again: berth login')
    throw explain(connection, path, answer)
  }
  throw new CliError(EXIT.notLoggedIn, ENDED.expired_token ?? '', 'start again: berth login')
}

const expiresAt = (answer: TokenAnswer, now: number): string =>
  `${new Date(now + answer.expires_in * 1_000).toISOString().slice(0, 19)}Z`

/**
 * A token in place of an expired one: one that another command has just stored, or a new one. Undefined: there is no
 * refresh token.
 */
export async function renewToken(
  connection: Connection,
  path: string,
  expired: string,
): Promise<string | undefined> {
  const { io, baseUrl } = connection
  let token: string | undefined
  await updateCredentials(path, io, async (before) => {
    const entry = before[baseUrl]
    if (!entry) return undefined
    if (entry.access_token !== expired) {
      token = entry.access_token
      return undefined
    }
    if (entry.refresh_token === null) return undefined
    const answer = await refresh(connection, entry.refresh_token)
    token = answer.access_token
    const fresh = {
      access_token: answer.access_token,
      refresh_token: answer.refresh_token,
      expires_at: expiresAt(answer, io.now()),
    }
    return { ...before, [baseUrl]: { ...entry, ...fresh } }
  })
  return token
}

/** New tokens for a login; with `scopes` it keeps only these. */
export async function refresh(
  connection: Connection,
  refreshToken: string,
  scopes?: readonly string[],
): Promise<TokenAnswer> {
  const path = '/api/oauth/token'
  const form = {
    ...{ grant_type: 'refresh_token', refresh_token: refreshToken },
    ...(scopes ? { scope: scopes.join(' ') } : {}),
  }
  // shorter than the lock's lifetime, with one retry: the server accepts a spent token again after a lost reply
  const send = () => post(connection, path, form, { timeoutMs: CLIENT.refreshMs })
  const answer = await send().catch((error: unknown) => {
    if (error instanceof ApiFailure && error.kind === 'no_answer') return send()
    throw error
  })
  if (answer.status === 200) return parseAnswer(answer, `POST ${path}`, TokenAnswer).value
  if (errorOf(answer)?.error !== 'invalid_grant') throw explain(connection, path, answer)
  const hint = `log in again: berth login --url ${connection.baseUrl}`
  throw new CliError(EXIT.notLoggedIn, 'this login has ended', hint)
}

/** False: the server could not be reached. */
export async function revokeToken(connection: Connection, token: string): Promise<boolean> {
  try {
    return (await post(connection, '/api/oauth/revoke', { token })).status === 200
  } catch (error) {
    if (error instanceof ApiFailure && error.kind === 'no_answer') return false
    throw error
  }
}
