// Device login (RFC 8628): a client starts it, a signed-in user decides it, the client fetches its tokens by polling.
// The code is worthless until a signed-in user approves it, and works once.
import { randomBytes, randomInt } from 'node:crypto'
import { AppError, PEOPLE } from '@berth/shared'
import type { OauthErrorCode, Scope, TokenAnswer } from '@berth/shared/api'
import { CLIENT_ID } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import type { Caller, From } from '../../domain/core/access.ts'
import {
  decidePoll,
  readUserCode,
  showUserCode,
  USER_CODE_CHARS,
  USER_CODE_LETTERS,
} from '../../domain/people/device-login.ts'
import { parseScopes, tooWide } from '../../domain/people/people.ts'
import { hashToken } from '../../identity/tokens.ts'
import { isUniqueViolation } from '../../store/engine/database.ts'
import { deleteWrongTries, raiseWrongTries } from '../../store/people/accounts.ts'
import {
  type DeviceLogin,
  findDeviceByCode,
  findDeviceByUserCode,
  insertDeviceLogin,
  insertLogin,
  moveDevice,
  updateDevicePoll,
} from '../../store/people/logins.ts'
import { findUser } from '../../store/people/users.ts'
import { auditCaller } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { issueTokens } from './login-tokens.ts'
import { personAsCaller } from './sign-in.ts'

/** The refusals of OAuth endpoints, in OAuth's words. */
export class OauthRefusal extends Error {
  readonly code: OauthErrorCode
  constructor(code: OauthErrorCode, message: string) {
    super(message)
    this.name = 'OauthRefusal'
    this.code = code
  }
}

const DEFAULT_SCOPES: Scope[] = ['read', 'deploy', 'write', 'ssh']

interface DeviceStart {
  deviceCode: string
  userCode: string
  verificationUri: string
  verificationUriComplete: string
  expiresInMs: number
  intervalMs: number
}

const makeUserCode = (): string =>
  Array.from({ length: USER_CODE_CHARS }, () =>
    USER_CODE_LETTERS.charAt(randomInt(USER_CODE_LETTERS.length)),
  ).join('')

export function requireClient(clientId: string | undefined): void {
  if (clientId !== CLIENT_ID) {
    throw new OauthRefusal('invalid_client', `client_id must be ${CLIENT_ID}.`)
  }
}

/** Unauthenticated clients send these names and users see them: no control characters, not long. */
const cleanName = (name: string | undefined): string =>
  (name ?? '')
    .replaceAll(/\p{Cc}/gu, '')
    .trim()
    .slice(0, PEOPLE.deviceNameChars) || 'a device'

export async function startDevice(
  ctx: Context,
  asked: { scope?: string | undefined; deviceName?: string | undefined },
  address: string,
): Promise<DeviceStart> {
  const scopes = asked.scope === undefined ? DEFAULT_SCOPES : parseScopes(asked.scope)
  if (!scopes || scopes.length === 0) {
    throw new OauthRefusal('invalid_scope', 'Scopes are read, deploy, write, ssh, admin.')
  }
  const deviceCode = `dc_${randomBytes(32).toString('base64url')}`
  for (let attempt = 1; ; attempt++) {
    const userCode = makeUserCode()
    try {
      const now = ctx.clock.now()
      await insertDeviceLogin(ctx.db, {
        deviceCodeHash: hashToken(deviceCode),
        userCode,
        clientId: CLIENT_ID,
        deviceName: cleanName(asked.deviceName),
        scopes,
        address,
        status: 'pending',
        intervalMs: PEOPLE.devicePollMs,
        createdAt: now,
        expiresAt: now + PEOPLE.deviceMs,
      })
      const shown = showUserCode(userCode)
      return {
        deviceCode,
        userCode: shown,
        verificationUri: `${ctx.baseUrl}/device`,
        verificationUriComplete: `${ctx.baseUrl}/device?code=${shown}`,
        expiresInMs: PEOPLE.deviceMs,
        intervalMs: PEOPLE.devicePollMs,
      }
    } catch (error) {
      if (!isUniqueViolation(error) || attempt >= 5) throw error // the code is taken
    }
  }
}

const MESSAGES: Partial<Record<OauthErrorCode, string>> = {
  authorization_pending: 'The login is not approved yet.',
  slow_down: 'Ask less often.',
  expired_token: 'The code is older than 15 minutes. Start again.',
  access_denied: 'The login was denied.',
  invalid_grant: 'This device code is not known or was used.',
}
const refusal = (code: OauthErrorCode): OauthRefusal =>
  new OauthRefusal(code, MESSAGES[code] ?? code)

/** One poll. The tokens are handed out once: of two concurrent polls one gets them. */
export async function pollDevice(
  ctx: Context,
  deviceCode: string,
  from: From,
): Promise<TokenAnswer> {
  const answered = await change(ctx, async (c) => {
    const device = await findDeviceByCode(c.db, hashToken(deviceCode))
    const verdict = decidePoll(device, c.now)
    if (!device || verdict.kind === 'invalid_grant') return refusal('invalid_grant')
    const intervalMs = verdict.kind === 'slow_down' ? verdict.intervalMs : device.intervalMs
    await updateDevicePoll(c.db, device.id, { polledAt: c.now, intervalMs })
    if (verdict.kind !== 'issue') return refusal(verdict.kind)
    return completeLogin(c, device, from)
  })
  if (answered instanceof OauthRefusal) throw answered
  return answered
}

async function completeLogin(
  c: Change,
  device: DeviceLogin,
  from: From,
): Promise<TokenAnswer | OauthRefusal> {
  const user = device.userId === null ? undefined : await findUser(c.db, device.userId)
  if (!user || user.disabledAt !== null) return refusal('access_denied')
  if (!(await moveDevice(c.db, device.id, 'approved', 'spent'))) return refusal('invalid_grant')
  const name = `berth on ${device.deviceName}`
  const { scopes, clientId } = device
  const login = { userId: user.id, clientId, name, scopes, createdAt: c.now }
  const loginId = await insertLogin(c.db, login)
  const answer = await issueTokens(c, { ...login, id: loginId, revokedAt: null })
  const caller = personAsCaller(user, from)
  await auditCaller(c, caller, null, 'login.begin', ['login', loginId], { name, scopes })
  return answer
}

export interface DeviceView {
  userCode: string
  deviceName: string
  address: string
  scopes: Scope[]
  startedAt: number
  expiresAt: number
}

const triesKey = (userId: number): string => `device:${userId}`
const WRONG_CODE = 'This code is not known, was used, or is older than 15 minutes.'

/** Counts the try against the user before the lookup; five wrong codes block the user for a while. */
async function findTyped(ctx: Context, caller: Caller, typed: string): Promise<DeviceLogin> {
  const now = ctx.clock.now()
  const key = triesKey(caller.userId)
  const bounds = { now, most: PEOPLE.wrongUserCodes, windowMs: PEOPLE.lockMs }
  const { count, until } = await raiseWrongTries(ctx.db, key, bounds)
  if (count > bounds.most) {
    throw new AppError('rate_limited', 'Too many wrong codes. Start the login again later.', {
      retry_after: Math.max(1, Math.ceil((until - now) / 1_000)),
    })
  }
  const code = readUserCode(typed)
  const found = code === undefined ? undefined : await findDeviceByUserCode(ctx.db, code)
  if (found?.status !== 'pending' || found.expiresAt <= now) {
    throw new AppError('not_found', WRONG_CODE)
  }
  await deleteWrongTries(ctx.db, key)
  return found
}

/** The data for the page that asks "did you start this?". Read-only. */
export async function describeDevice(
  ctx: Context,
  caller: Caller,
  userCode: string,
): Promise<DeviceView> {
  const device = await findTyped(ctx, caller, userCode)
  return {
    userCode: showUserCode(device.userCode),
    deviceName: device.deviceName,
    address: device.address,
    scopes: device.scopes,
    startedAt: device.createdAt,
    expiresAt: device.expiresAt,
  }
}

async function decideDevice(
  ctx: Context,
  caller: Caller,
  userCode: string,
  status: 'approved' | 'denied',
): Promise<void> {
  const device = await findTyped(ctx, caller, userCode)
  const wide = status === 'approved' ? tooWide(device.scopes, caller.scopes) : []
  if (wide.length > 0) {
    throw new AppError('insufficient_scope', `You cannot give away the scope "${wide[0]}".`, {
      required_scope: wide[0],
    })
  }
  await change(ctx, async (c) => {
    if (!(await moveDevice(c.db, device.id, 'pending', status, caller.userId))) {
      throw new AppError('not_found', WRONG_CODE)
    }
    const verb = status === 'approved' ? 'device.approve' : 'device.deny'
    const details = { device: device.deviceName, scopes: device.scopes }
    await auditCaller(c, caller, null, verb, ['device', device.id], details)
  })
}

/** From now on the device may fetch tokens that act as the caller. */
export const approveDevice = (ctx: Context, caller: Caller, userCode: string): Promise<void> =>
  decideDevice(ctx, caller, userCode, 'approved')

export const denyDevice = (ctx: Context, caller: Caller, userCode: string): Promise<void> =>
  decideDevice(ctx, caller, userCode, 'denied')
