// Device login (RFC 8628), refresh and revocation on the wire: form bodies in, OAuth's own error bodies out.
import { z } from 'zod'
import { SCOPES } from './me.ts'

export const CLIENT_ID = 'berth-cli'
export const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'

export const DeviceAuthorization = z.object({
  device_code: z.string(),
  user_code: z.string(),
  verification_uri: z.string(),
  verification_uri_complete: z.string(),
  expires_in: z.int(),
  interval: z.int(),
})
export type DeviceAuthorization = z.infer<typeof DeviceAuthorization>

export const TokenAnswer = z.object({
  access_token: z.string(),
  token_type: z.literal('Bearer'),
  expires_in: z.int(),
  refresh_token: z.string(),
  scope: z.string(),
})
export type TokenAnswer = z.infer<typeof TokenAnswer>

const OAUTH_ERRORS = [
  'authorization_pending',
  'slow_down',
  'expired_token',
  'access_denied',
  'invalid_request',
  'invalid_client',
  'invalid_grant',
  'invalid_scope',
  'unsupported_grant_type',
  'temporarily_unavailable',
  'server_error',
] as const
export type OauthErrorCode = (typeof OAUTH_ERRORS)[number]
export const OauthError = z.object({
  error: z.enum(OAUTH_ERRORS),
  error_description: z.string(),
})

/** RFC 8414. */
export const AuthorizationServer = z.object({
  issuer: z.string(),
  token_endpoint: z.string(),
  device_authorization_endpoint: z.string(),
  revocation_endpoint: z.string(),
  grant_types_supported: z.array(z.string()),
  response_types_supported: z.array(z.string()),
  token_endpoint_auth_methods_supported: z.array(z.string()),
  revocation_endpoint_auth_methods_supported: z.array(z.string()),
  scopes_supported: z.array(z.enum(SCOPES)),
})

/** What a signed-in user sees of a device that asks to act as them. */
export const DeviceDescription = z.object({
  user_code: z.string(),
  device_name: z.string(),
  address: z.string(),
  scopes: z.array(z.enum(SCOPES)),
  started_at: z.string(),
  expires_at: z.string(),
})
export type DeviceDescription = z.infer<typeof DeviceDescription>
export const UserCodeRequest = z.strictObject({ user_code: z.string().min(1).max(40) })
