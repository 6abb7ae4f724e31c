// The meaning of each error code and what to do next, for the page that the `type` of every problem links to.
import type { ErrorCode } from '@berth/shared'

interface ErrorText {
  means: string
  next: string
}

const say = (means: string, next: string): ErrorText => ({ means, next })

export const ERROR_TEXTS: Record<ErrorCode, ErrorText> = {
  malformed_json: say(
    'The body of the request could not be read as JSON, was cut short, or holds a key such as `__proto__` that is never accepted.',
    'Check the body with a JSON parser and send it with `Content-Type: application/json`.',
  ),
  invalid_cursor: say(
    'The `cursor` is not one that this list gave out: it was changed, cut, or belongs to another list.',
    'Start at the first page and follow the `next` address of the `Link` header unchanged.',
  ),
  invalid_header: say(
    'A request header has a form that is not accepted; the detail says which one.',
    'Correct or leave out the header. An `Idempotency-Key` has 1 to 255 printable ASCII characters.',
  ),
  invalid_parameter: say(
    'A part of the address (an id or a query parameter) has the wrong form or is out of range.',
    'Read `errors`: it names each parameter. Ids are positive integers.',
  ),
  invalid_organization: say(
    'The header `X-Service-Organization` is not a positive integer.',
    'Send the id of one of your organizations, as `GET /api/me` lists them, or leave the header out.',
  ),
  token_missing: say(
    'The operation needs a bearer token and the request has none. A token in the address or in a cookie does not count.',
    'Send `Authorization: Bearer <token>`. `berth login` obtains one.',
  ),
  token_invalid: say(
    'The token is not one of this installation, or was mistyped.',
    'Check that the whole token was copied and that the address is right; otherwise log in again with `berth login`.',
  ),
  token_expired: say(
    'The token was valid once; its time is over.',
    'Run `berth login`, or make a new personal token.',
  ),
  token_revoked: say(
    'The token was revoked: by you, by a change of password, or because a membership ended.',
    'Run `berth login`, or make a new personal token.',
  ),
  sign_in_failed: say(
    'The e-mail address or the password is wrong. Which of them is not said.',
    'Try again, or ask for a link to set a new password. After ten wrong passwords the address is locked for 15 minutes.',
  ),
  second_factor_wrong: say(
    'The code of the authenticator app, or the recovery code, is wrong or was used.',
    'Wait for the next code, or use another recovery code. After five wrong codes the account waits 15 minutes.',
  ),
  passkey_refused: say(
    'The passkey is not known here, belongs to another account, or its answer did not fit the question.',
    'Try again, or sign in with your password and second factor.',
  ),
  provider_refused: say(
    'The sign-in at the OpenID Connect provider did not lead to an account here. The message has the reason.',
    'Follow the message; an administrator finds more in the log of the control plane.',
  ),
  setup_token_invalid: say(
    'The set-up token is not the one that the control plane printed at its last start.',
    'Look at the console or log of the control plane; each start prints a new token as long as there is no administrator.',
  ),
  join_token_invalid: say(
    'The join token is unknown, was used, or is older than 15 minutes. Which of these is not said.',
    'Make a new one with `berth server join-token NAME` and run the printed command on the server.',
  ),
  invalid_signature: say(
    'The signature of a webhook delivery does not fit its body and the secret of the project.',
    'Compare the secret at the repository host with that of the project, or generate a new one and enter it there.',
  ),
  permission_denied: say(
    'You can see this, but your role in the organization does not allow the operation. `required_permission` names what is missing.',
    'Ask an administrator of the organization for the role, or to do it for you.',
  ),
  insufficient_scope: say(
    'Your role would allow it, but the token was made without the scope that `required_scope` names.',
    'Log in with the scope, for example `berth login --scope admin`, or make a token that has it.',
  ),
  organization_forbidden: say(
    'You cannot act in the organization that `X-Service-Organization` names: it does not exist, you are not a member, or the token is bound to another one.',
    'Use the id of one of your organizations (`GET /api/me`).',
  ),
  account_disabled: say(
    'A platform administrator has disabled the account.',
    'Ask a platform administrator of the installation.',
  ),
  environment_protected: say(
    'The environment is protected. Only its owner can deploy, change or delete it.',
    'Ask the `owner` to do it or to remove the protection.',
  ),
  platform_admin_only: say(
    'The operation is for platform administrators of the installation.',
    'Ask one of them. The role in an organization does not matter here.',
  ),
  role_too_high: say(
    'A role above your own cannot be given or changed.',
    'Ask a member who has that role or a higher one.',
  ),
  server_shell_disabled: say(
    'Shells on the whole server are switched off, in its settings here or on the server itself.',
    'Ask for a shell in one environment instead, or have an administrator enable `shell_enabled`.',
  ),
  origin_forbidden: say(
    'A browser sent this request from a page that is not this installation’s own. Requests that carry a session cookie are taken from the dashboard alone.',
    'Use the dashboard at its configured address; programs send a bearer token instead of a cookie.',
  ),
  invitation_for_other_address: say(
    'The invitation was sent to another e-mail address than that of your account.',
    'Sign in with the invited address, or ask for an invitation to yours.',
  ),
  second_factor_required: say(
    'An organization requires two-factor sign-in, and the account has none; or the last factor would go.',
    'Set up an authenticator app or a passkey on your account page.',
  ),
  recent_sign_in_required: say(
    'A change of how you sign in needs a sign-in of the last 15 minutes.',
    'Confirm with your password or a passkey, then try again.',
  ),
  password_sign_in_off: say(
    'This installation takes passwords only from administrators.',
    'Sign in with the provider that the sign-in page offers.',
  ),
  not_found: say(
    'It does not exist, it was removed, or it belongs to an organization you are not a member of. The answer is the same on purpose.',
    'Check the id, the address and the organization header. Container logs are read with `berth logs`.',
  ),
  method_not_allowed: say(
    'The address exists, but not with this method.',
    'Use one of the methods that the `Allow` header names.',
  ),
  not_acceptable: say(
    'The `Accept` header allows none of the media types this operation can answer with.',
    'Leave the header out, or accept `application/json` (logs: `text/plain`, `application/x-ndjson`).',
  ),
  deployment_in_progress: say(
    'A deployment of the environment is queued or running. `task_id` names it.',
    'Wait for it (`berth deploy --wait` does), or cancel it with `POST /api/tasks/{id}/cancel`.',
  ),
  environment_removing: say(
    'The environment is being removed from its server; nothing can be changed any more.',
    'Wait until it is gone. A new environment can then have the same identifier.',
  ),
  environment_limit_reached: say(
    'The project has as many environments as it may have; those being removed count until they are gone.',
    'Delete one, or ask a platform administrator to raise the limit.',
  ),
  identifier_taken: say(
    'Another environment of the project has this identifier.',
    'Choose another identifier, or delete the other environment first.',
  ),
  name_taken: say(
    'Another one of the same kind in this organization has this name.',
    'Choose another name.',
  ),
  domain_in_use: say(
    'The domain belongs to another environment or project of this installation.',
    'Choose another domain, or free it where it is used now.',
  ),
  task_finished: say(
    'The task is over; what is over stays as it is.',
    'Look at its result with `GET /api/tasks/{id}`.',
  ),
  server_already_joined: say(
    'The server has an agent. A second one with the same identity would fight with it.',
    'To replace the agent, ask with `{"rejoin": true}`; the present one is revoked when the new one joins.',
  ),
  server_in_use: say(
    'Environments still live on the server; `environments` lists them.',
    'Move or delete them first.',
  ),
  agent_not_upgradable: say(
    'The agent has no newer version, cannot update itself, or this control plane has no signed release.',
    'The message says why; `command` upgrades an agent by hand.',
  ),
  agent_outdated: say(
    'The agent of the server does not know this kind of request.',
    'Update the agent; the server page shows how.',
  ),
  request_log_unavailable: say(
    'The server runs without a proxy, or its proxy writes no request log.',
    'The message says which. `BERTH_PROXY_ACCESS_LOG=off` on the server switches the log off; remove it.',
  ),
  setup_done: say(
    'The installation has its first administrator already.',
    'Log in, or ask an administrator for an invitation.',
  ),
  protection_active: say(
    'The environment is protected, and the listed `fields` cannot be changed meanwhile, not even together with the removal of the protection.',
    'Remove the protection and save; then change the fields.',
  ),
  approval_required: say(
    'The commit comes from a fork and is not approved yet. Berth does not run code from outside the project without a review.',
    'Read the commit, then approve exactly this `head_sha`.',
  ),
  approval_outdated: say(
    'The pull request has a newer commit than the one you approved.',
    'Read the new commit and approve its `head_sha`.',
  ),
  approval_not_needed: say(
    'The pull request comes from the repository itself; its commits need no approval.',
    'Deploy it as usual.',
  ),
  pull_request_closed: say(
    'The pull request is closed or merged.',
    'Open it again at the repository host if it is still needed.',
  ),
  slug_taken: say('Another organization has this slug.', 'Choose another one.'),
  too_many_tasks: say(
    'As many tasks wait for this environment as may wait.',
    'Wait until one has finished, or cancel one.',
  ),
  not_deployed: say(
    'The environment was never deployed, so there is nothing an action could run in.',
    'Deploy it first.',
  ),
  action_disabled: say(
    'The action is disabled; its `disabled_reason` says why, for example the former `result: file`.',
    'Correct `.service.yml` (declare `artifacts.paths`), and deploy.',
  ),
  ssh_unavailable: say(
    'The agent of the server says that SSH is off there: nothing listens, so no certificate is given out. `reason` says why.',
    'Read `reason` and the part `sshd` of `GET /api/servers/{id}`. Install an OpenSSH server or set `BERTH_SSH` on that server, then restart its agent.',
  ),
  host_key_not_offered: say(
    'The fingerprint is not of a host key that the forge shows now, or the repository is not read over ssh.',
    'Read `offered` or `GET /api/projects/{id}/host_key`, compare the fingerprint with the one the forge publishes, and send exactly that one.',
  ),
  forge_unreachable: say(
    'The control plane could not ask the forge for its host key; the detail says why.',
    'Try again when the forge answers. An address inside a private network is listed by an operator in `BERTH_PRIVATE_GIT_HOSTS`.',
  ),
  forge_in_use: say(
    'Projects still use this connection to a forge; `projects` lists them.',
    'Disconnect them or give them another connection first.',
  ),
  confirmation_required: say(
    'The operation destroys something and must be confirmed by name; the answer says what to confirm.',
    'Repeat the request with the confirmation the detail names.',
  ),
  backup_not_restorable: say(
    'The backup is not complete, or its bytes cannot reach that environment; the detail says which.',
    'Choose another backup or environment.',
  ),
  backup_storage_missing: say(
    'The backup should go to a bucket, and the organization has no storage for backups.',
    'An administrator adds it, or choose the disk of the server (`"place": "server"`).',
  ),
  backup_storage_used: say(
    'Backups are in this storage, and the key that opens them would go with it.',
    'Let retention end them first, or change the storage.',
  ),
  notification_not_replayable: say(
    'The notification is still waiting, so it is sent without you; or its address was removed from the channel.',
    'Read its `status` and `next_at`. For another address, change the channel and send a test.',
  ),
  artifact_changed: say(
    'The file on the server is not the one that was collected: its size or digest differs.',
    'Run the action again.',
  ),
  passkeys_unavailable: say(
    'Browsers offer passkeys only at a name over HTTPS, or at localhost.',
    'Open Berth by its name, or let an administrator set up HTTPS (`BERTH_DOMAIN`).',
  ),
  organization_not_empty: say(
    'The organization still has projects or servers.',
    'Delete them first; then the organization can go.',
  ),
  already_member: say('The person is a member of the organization.', 'Change the role instead.'),
  account_exists: say(
    'The invited address has an account here already, so the invitation cannot make another one.',
    'Sign in with that account and accept the invitation there.',
  ),
  already_invited: say(
    'There is an open invitation for this address.',
    'Send it again, or withdraw it and invite again.',
  ),
  last_owner: say(
    'The organization would be left without an owner.',
    'Make another member an owner first.',
  ),
  last_platform_admin: say(
    'The installation would be left without a platform administrator.',
    'Make another member one first.',
  ),
  project_deleting: say(
    'The project is being deleted; it disappears with its last environment.',
    'Wait until it is gone.',
  ),
  idempotency_in_flight: say(
    'The first request with this `Idempotency-Key` has not been answered yet.',
    'Wait a moment and repeat the request with the same key and body.',
  ),
  idempotency_not_replayable: say(
    'The first request with this key had its effect, but its reply is not kept, because it showed a secret, belongs to variables, or was lost. Nothing was done a second time.',
    'Look at what was made (`id`, `location`). If the secret was lost, make a new one with a new key.',
  ),
  log_expired: say(
    'Logs are kept for 90 days; this one is older.',
    'Deploy again if you need its output; the task itself stays readable.',
  ),
  log_gone: say(
    'The log was stored, but its file is no longer on the control plane, or only a part of it: it was deleted, or a backup without the logs was restored.',
    'What the task did is still in its phases and its failure. Deploy again for a new log.',
  ),
  artifact_expired: say(
    'The retention of the file is over.',
    'Run the action again and fetch the file within its retention.',
  ),
  artifact_gone: say('The file is no longer on its server.', 'Run the action again.'),
  events_gone: say(
    'Events are kept for 7 days, and a stream catches up on at most 10,000. The events after this id are gone or too many, or the id was never given.',
    'Read the present state with the other operations, then open the stream without `after` and `Last-Event-ID`, or after the id in `newest`.',
  ),
  delivery_expired: say(
    'The body of the delivery is no longer kept.',
    'Send it again from the repository host.',
  ),
  invitation_expired: say(
    'The invitation is older than 7 days, was used, or was withdrawn.',
    'Ask for a new one.',
  ),
  reset_link_invalid: say(
    'The link to set a new password was used, replaced by another change of the password, or is older than an hour.',
    'Ask for a new link on the page where you sign in.',
  ),
  body_too_large: say(
    'The body is larger than the operation takes: 1 MiB, webhooks 25 MiB.',
    'Send less at once.',
  ),
  uri_too_long: say('The address has more than 8 KiB.', 'Shorten the query.'),
  unsupported_media_type: say(
    'The body is in a media type that the operation does not read.',
    'Send JSON with `Content-Type: application/json`.',
  ),
  range_not_satisfiable: say(
    'The requested byte range is outside the content. `Content-Range` has the present length.',
    'Ask for a range inside it, or wait until the log has grown.',
  ),
  validation_failed: say(
    'One or more fields of the body are not valid; nothing was changed.',
    'Read `errors`: each names a field, a code and what is wrong. Unknown fields are refused too.',
  ),
  server_not_ready: say(
    'No agent ever joined from the server, so nothing can run there.',
    'Make a join token with `berth server join-token NAME` and run the printed command on the server.',
  ),
  project_not_ready: say('The project has no server.', 'Give it one in its settings.'),
  organization_required: say(
    'You belong to several organizations, and the request does not say in which one to make the thing.',
    'Send `X-Service-Organization` with one of the ids in `organizations`.',
  ),
  idempotency_key_reused: say(
    'The `Idempotency-Key` was used for another body, query or organization at this address within 24 hours.',
    'Use a new key for each new request; repeat a key only with the very same request.',
  ),
  csr_invalid: say(
    'The certificate request of the agent is not well-formed, not signed by its key, or of a kind that is not accepted.',
    'Join again with the present release of the agent.',
  ),
  rate_limited: say(
    'More requests came than the limit allows; the `RateLimit` headers say which limit and how much is left.',
    'Wait the seconds of `Retry-After`. Poll with `If-None-Match`: unchanged answers cost nothing.',
  ),
  request_timeout: say(
    'The head of a request must arrive within 10 seconds, the whole of it within 15.',
    'Send it again, over a faster line or in smaller parts.',
  ),
  headers_too_large: say(
    'The headers are over 16 KiB together, or more than 200.',
    'Send fewer or shorter headers; cookies do not belong here.',
  ),
  internal_error: say(
    'Something went wrong inside the control plane. Nothing is said about it here; the log has the cause.',
    'Try again. If it happens again, give the `request_id` to the administrator of the installation.',
  ),
  unavailable: say(
    'The control plane is starting or stopping, or has as many connections as it may have.',
    'Try again after the seconds of `Retry-After`.',
  ),
  database_unavailable: say(
    'The database does not answer now, for example while a standby takes over.',
    'Try again after the seconds of `Retry-After`; send an `Idempotency-Key` with each change.',
  ),
  outcome_unknown: say(
    'The database went away while the change was being stored, so the control plane does not know whether it was stored.',
    'Repeat the request with the same `Idempotency-Key`, or read before you repeat it.',
  ),
  storage_full: say(
    'The control plane has no room left to write. Nothing was changed; reading still works.',
    'An administrator must free space on the disk of its data.',
  ),
  server_offline: say(
    'The content is on a server that is not connected now.',
    'Try again when the server is back; `GET /api/servers/{id}` shows when it was last seen.',
  ),
  transfers_busy: say(
    'As many transfers from the server are under way as it may have.',
    'Try again in a moment.',
  ),
  server_timeout: say(
    'The server is connected but did not answer within 10 seconds.',
    'Try again; if it stays so, look at the load of the server.',
  ),
}
