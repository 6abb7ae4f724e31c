// Refusals: requests that were not granted. Each code has one status and one title and never changes its meaning;
// programs switch on the code, users read the message.
export const ERRORS = {
  malformed_json: [400, 'The body is not valid JSON'],
  invalid_cursor: [400, 'The cursor is not valid'],
  invalid_header: [400, 'A header is not valid'],
  invalid_parameter: [400, 'A parameter is not valid'],
  invalid_organization: [400, 'The organization header is not valid'],
  token_missing: [401, 'A bearer token is needed'],
  token_invalid: [401, 'The token is not valid'],
  token_expired: [401, 'The token has expired'],
  token_revoked: [401, 'The token was revoked'],
  sign_in_failed: [401, 'The address or the password is wrong'],
  second_factor_wrong: [401, 'The code is wrong'],
  passkey_refused: [401, 'The passkey was not accepted'],
  provider_refused: [401, 'The sign-in at the provider was not accepted'],
  setup_token_invalid: [401, 'The set-up token is not valid'],
  join_token_invalid: [401, 'The join token is not valid'],
  invalid_signature: [401, 'The signature is not valid'],
  permission_denied: [403, 'Your role does not allow this'],
  insufficient_scope: [403, 'The token does not allow this'],
  organization_forbidden: [403, 'You are not a member of this organization'],
  account_disabled: [403, 'The account is disabled'],
  environment_protected: [403, 'The environment is protected'],
  platform_admin_only: [403, 'Only a platform administrator can do this'],
  role_too_high: [403, 'The role is above your own'],
  server_shell_disabled: [403, 'Shells on the whole server are switched off'],
  origin_forbidden: [403, 'The request came from a foreign page'],
  invitation_for_other_address: [403, 'The invitation is for another address'],
  second_factor_required: [403, 'Two-factor sign-in is required'],
  recent_sign_in_required: [403, 'You must confirm who you are first'],
  password_sign_in_off: [403, 'Signing in with a password is switched off'],
  not_found: [404, 'Not found'],
  method_not_allowed: [405, 'The method is not allowed here'],
  not_acceptable: [406, 'No acceptable representation'],
  request_timeout: [408, 'The request took too long to arrive'],
  deployment_in_progress: [409, 'A deployment is already in progress'],
  environment_removing: [409, 'The environment is being removed'],
  environment_limit_reached: [409, 'The project is at its environment limit'],
  identifier_taken: [409, 'The identifier is taken'],
  name_taken: [409, 'The name is taken'],
  domain_in_use: [409, 'The domain is in use'],
  task_finished: [409, 'The task has finished'],
  server_already_joined: [409, 'The server has an agent already'],
  server_in_use: [409, 'The server is in use'],
  agent_not_upgradable: [409, 'The agent cannot be upgraded from here'],
  agent_outdated: [409, 'The agent is too old for this'],
  request_log_unavailable: [409, 'The server has no request log'],
  setup_done: [409, 'The set-up was done'],
  protection_active: [409, 'Protection must be removed first'],
  approval_required: [409, 'The commit must be approved first'],
  approval_outdated: [409, 'The pull request has a newer commit'],
  approval_not_needed: [409, 'The pull request needs no approval'],
  pull_request_closed: [409, 'The pull request is closed'],
  slug_taken: [409, 'The slug is taken'],
  too_many_tasks: [409, 'Too many tasks are waiting'],
  not_deployed: [409, 'The environment is not deployed'],
  action_disabled: [409, 'The action is disabled'],
  ssh_unavailable: [409, 'SSH to this server is unavailable'],
  host_key_not_offered: [409, 'The forge does not show this host key'],
  forge_unreachable: [409, 'The forge cannot be reached'],
  forge_in_use: [409, 'Projects use the connection'],
  confirmation_required: [409, 'A confirmation is needed'],
  backup_not_restorable: [409, 'The backup cannot be restored there'],
  backup_storage_missing: [409, 'There is no storage for backups'],
  backup_storage_used: [409, 'Backups are in this storage'],
  notification_not_replayable: [409, 'The notification cannot be replayed now'],
  artifact_changed: [409, 'The file changed on the server'],
  passkeys_unavailable: [409, 'Passkeys do not work at this address'],
  organization_not_empty: [409, 'The organization is not empty'],
  already_member: [409, 'They are a member already'],
  account_exists: [409, 'There is an account with this address'],
  already_invited: [409, 'They are invited already'],
  last_owner: [409, 'An organization keeps one owner'],
  last_platform_admin: [409, 'An installation keeps one platform administrator'],
  project_deleting: [409, 'The project is being deleted'],
  idempotency_in_flight: [409, 'The first request with this key is still running'],
  idempotency_not_replayable: [409, 'The reply to this key cannot be repeated'],
  log_expired: [410, 'The log is past its retention'],
  log_gone: [410, 'The log is no longer there'],
  artifact_expired: [410, 'The file is past its retention'],
  artifact_gone: [410, 'The file is no longer on the server'],
  events_gone: [410, 'The events after this id are no longer there'],
  delivery_expired: [410, 'The delivery is past its retention'],
  invitation_expired: [410, 'The invitation has expired'],
  reset_link_invalid: [410, 'The link is no longer good'],
  body_too_large: [413, 'The body is too large'],
  uri_too_long: [414, 'The address is too long'],
  unsupported_media_type: [415, 'The media type is not supported'],
  range_not_satisfiable: [416, 'The range cannot be satisfied'],
  validation_failed: [422, 'The request is not valid'],
  server_not_ready: [422, 'The server has no agent yet'],
  project_not_ready: [422, 'The project has no server'],
  organization_required: [422, 'An organization must be named'],
  idempotency_key_reused: [422, 'The idempotency key was used for another request'],
  csr_invalid: [422, 'The certificate request is not valid'],
  rate_limited: [429, 'Too many requests'],
  headers_too_large: [431, 'The headers are too large'],
  internal_error: [500, 'Internal error'],
  unavailable: [503, 'The service is not available now'],
  database_unavailable: [503, 'The database does not answer now'],
  outcome_unknown: [503, 'The change may have been stored or not'],
  storage_full: [503, 'The storage is full'],
  server_offline: [503, 'The server is offline'],
  transfers_busy: [503, 'Too many transfers are under way'],
  server_timeout: [504, 'The server did not answer in time'],
} as const satisfies Record<string, readonly [number, string]>

export type ErrorCode = keyof typeof ERRORS

/** One problem of one field of a request. */
export interface FieldProblem {
  field: string
  code: string
  message: string
}

/** Thrown by app/ to refuse a request; each gateway turns it into its own shape. */
export class AppError extends Error {
  readonly code: ErrorCode
  readonly details: Record<string, unknown>

  constructor(code: ErrorCode, message: string, details: Record<string, unknown> = {}) {
    super(message)
    this.name = 'AppError'
    this.code = code
    this.details = details
  }

  get status(): number {
    return ERRORS[this.code][0]
  }
}

/** 422 with the invalid fields; `errors[]` holds the code of each. */
export function invalidFields(problems: FieldProblem[]): AppError {
  const [first] = problems
  const message =
    problems.length === 1 && first ? first.message : `${problems.length} fields are not valid.`
  return new AppError('validation_failed', message, { errors: problems })
}
