// The caller, organizations, members, invitations, tokens and the login of clients.
import type { Glossary } from './entries.ts'

const SCOPES_SAID =
  'What a token may do at most; the role of its user limits it further. `read`, `deploy`, `write` (environments and variables), `ssh`, `admin` (projects, servers, people).'

export const PEOPLE: Glossary = {
  operations: {
    getMe: {
      says: 'Answers who you are, which token you use, and your organizations with your role and effective permissions in each. The organization header changes only `current_organization_id`.',
    },
    listOrganizations: {
      says: 'Lists the organizations you are a member of, all on one page, with your role and counts.',
    },
    createOrganization: {
      says: 'Creates an organization and makes you its owner. The slug must be free on the whole installation (409 `slug_taken`).',
      also: 'With the setting `BERTH_OPEN_ORGANIZATIONS` every account may do this.',
    },
    updateOrganization: {
      says: 'Changes the name or the slug; absent fields stay as they are. Ids never change, so links keep working.',
    },
    deleteOrganization: {
      says: 'Deletes an organization that has no projects and no servers left. It cannot be undone.',
    },
    listOrganizationMembers: { says: 'Lists members with role and last activity, page by page.' },
    updateOrganizationMember: {
      says: 'Gives a member another role. You cannot give or change a role above your own, and an organization keeps at least one owner. SSH access beyond the new role ends at once.',
    },
    deleteOrganizationMember: {
      says: 'Removes a member; with your own id you leave. Tokens bound to the organization become invalid, projects pass to the longest-standing owner, environments to their project’s owner, and channels mail their address no more.',
      also: 'Leaving needs no permission, only the scope.',
    },
    listOrganizationInvitations: {
      says: 'Lists invitations, page by page. The link itself is only in the mail.',
    },
    createOrganizationInvitation: {
      says: 'Mails a link that is valid once, for this address, for 7 days. The role must not be above your own.',
    },
    postOrganizationInvitationResend: {
      says: 'Mails a new link, valid for 7 days again. The former link stops working at once.',
    },
    deleteOrganizationInvitation: {
      says: 'Withdraws an invitation; its link stops working. People who already joined stay members.',
    },
    postInvitationsAccept: {
      says: 'Makes you a member with the role of the invitation. The link is in the mail.',
      also: 'The account must have the invited e-mail address.',
    },
    postInvitationsDescribe: {
      says: 'Shows what an invitation link offers before the person decides. It changes nothing, and the link stays valid.',
      also: 'The link’s token is the proof.',
    },
    postInvitationsRegister: {
      says: 'Creates an account for the invited address and makes it a member. If the address has an account, sign in and accept the invitation instead.',
      also: 'The link’s token is the proof.',
    },
    listTokens: {
      says: 'Lists your valid tokens of clients and your personal ones, page by page. Only the last four characters are kept of a token.',
      scope: 'read',
    },
    createToken: {
      says: 'Creates a personal token and shows it this once. It can have only scopes of the token in use, and an organization-bound token makes only tokens of the same organization. You can have 100.',
      scope: 'admin',
    },
    deleteToken: {
      says: 'Revokes one of your tokens at once. Revoking the token of a client’s login ends that login, including its refresh token.',
      scope: 'admin',
      also: 'A token may always revoke itself.',
    },
    postOauthDeviceAuthorization: {
      says: 'Begins a login by RFC 8628: show `user_code` to the person and poll `POST /api/oauth/token` until they decided. Codes are valid for 15 minutes.',
      body: { client_id: 'berth-cli', scope: 'read deploy write ssh', device_name: 'ada-laptop' },
    },
    postOauthToken: {
      says: 'Exchanges an approved device code, or a refresh token, for an access token of 30 days and a new refresh token. Errors are those of OAuth; `authorization_pending` means to ask again after `interval` seconds.',
      also: 'The device code or the refresh token is the proof.',
      body: {
        grant_type: 'urn:ietf:params:oauth:grant-type:device_code',
        client_id: 'berth-cli',
        device_code: 'dc_…',
      },
    },
    postOauthRevoke: {
      says: 'Ends a token, and the login that an access or refresh token belongs to (RFC 7009). An unknown token gets the same answer.',
      also: 'The token in the body is the proof.',
      body: { token: 'berth_rt_…', client_id: 'berth-cli' },
    },
    getWellKnownOauthAuthorizationServer: {
      says: 'Describes the login of clients as RFC 8414 defines it: endpoints, grant types and scopes.',
    },
  },
  fields: {
    '{user_id}': ['The member, by the `user.id` of the list of members.', '4'],
    '{invitation_id}': ['The invitation, by the `id` in the list.', '31'],
    '/tokens/{id}': ['The token’s `id`, not the token itself.', '58'],
    'deleteOrganization.confirm': [
      'Repeats the organization’s slug, so that nothing is deleted by accident.',
      'engines',
    ],

    name: ['As people see it.', 'Ada Lovelace'],
    email: ['Where mail goes and what the account signs in with.', 'ada@example.com'],
    role: [
      'Each role includes the one before it: `viewer`, `developer`, `admin`, `owner`.',
      'admin',
    ],
    permissions: [
      'What you may do there now: your role, limited by the scopes of the token.',
      ['read', 'deploy', 'environment:write', 'variables:write'],
    ],
    slug: ['The short name in addresses; unique on this installation.', 'engines'],
    project_count: ['Projects that exist now.', 4],
    member_count: ['Members, pending invitations left out.', 9],
    server_count: ['Servers that belong to it, shared ones of others left out.', 2],
    second_factor_required: [
      'Whether members need two-factor sign-in. Browsers of members without it reach only their account page; tokens that are older than the requirement continue.',
      false,
    ],
    has_second_factor: [
      'Whether the person uses two-factor sign-in; null if you do not manage members.',
      true,
    ],
    joined_at: ['When the membership began.', '2026-10-01T08:00:00Z'],
    last_active_at: [
      'When the account was last used, in the dashboard or with a token; null: never.',
      '2026-11-15T09:10:00Z',
    ],
    scopes: [SCOPES_SAID, ['read', 'deploy', 'write', 'ssh']],
    is_platform_admin: [
      'Whether the account administers the whole installation, beyond its organizations.',
      false,
    ],

    'Me.id': ['Your account; audit entries and tasks name it.', 4],
    'Me.avatar_url': ['Always null; kept for clients that expect it.', null],
    'Me.token': ['The token of this request.'],
    'Me.token.id': ['Names it in `DELETE /api/tokens/{id}`.', 58],
    'Me.token.organization_id': [
      'The only organization that this token acts in; null: all of yours.',
      null,
    ],
    'Me.token.expires_at': [
      'From then on the token is refused; null: never.',
      '2026-12-15T09:12:31Z',
    ],
    'Me.current_organization_id': [
      'The organization of the header `X-Service-Organization`; null without the header.',
      7,
    ],
    'Me.organizations': ['Every organization you are a member of.'],
    'Me.organizations.id': ['Names it in paths and in `X-Service-Organization`.', 7],
    'Me.organizations.name': ['As people see it.', 'Analytical Engines'],
    'Me.email': ['Where your mail goes and what you sign in with.', 'ada@example.com'],
    'token.kind': ['`login`: from `berth login`. `personal`: created by hand.', 'login'],
    'token.name': ['The device, or the name given at creation.', 'ada-laptop'],

    'OrganizationDetail.id': ['Names it in paths and in `X-Service-Organization`.', 7],
    'OrganizationDetail.name': ['As people see it.', 'Analytical Engines'],
    'OrganizationCreate.name': ['As people see it, at most 64 characters.', 'Analytical Engines'],
    'OrganizationCreate.slug': [
      'Lower case letters, digits and dashes, at most 40; made from the name if it is absent.',
      'engines',
    ],
    'OrganizationUpdate.name': ['As people see it, at most 64 characters.', 'Analytical Engines'],
    'OrganizationUpdate.slug': [
      'Lower case letters, digits and dashes, at most 40; must be free.',
      'engines',
    ],
    'Member.user': ['The account of the member, the same in all organizations.'],
    'Invitation.id': ['Names it in paths.', 31],
    'Invitation.email': ['The only address that can accept it.', 'grace@example.com'],
    'Invitation.role': ['The role that the person gets.', 'developer'],
    'Invitation.invited_by': ['The member who sent it.'],
    'Invitation.invited_by.id': ['The account of that member.', 4],
    'Invitation.invited_by.name': ['What people call that member.', 'Ada Lovelace'],
    'Invitation.expires_at': [
      'From then on the link is refused; send it again.',
      '2026-11-22T09:12:31Z',
    ],
    'Invitation.status': ['Withdrawn ones are not listed.', 'pending'],
    'InvitationCreate.email': [
      'Where the link goes; only this address can accept.',
      'grace@example.com',
    ],
    'InvitationCreate.role': ['The role that the person gets; not above your own.', 'developer'],
    'InvitationAccept.token': ['The last part of the link in the mail.', 'berth_invite_…'],
    'InvitationRegister.token': ['The last part of the link in the mail.', 'berth_invite_…'],
    'InvitationRegister.name': ['The person’s name, at most 100 characters.', 'Grace Hopper'],
    'InvitationRegister.password': [
      'For signing in to the dashboard, 10 to 128 characters. It is never shown again.',
      'correct horse battery',
    ],
    'InvitationDescription.organization': ['Where the person would become a member.'],
    'InvitationDescription.email': ['The only address that can accept it.', 'grace@example.com'],
    'InvitationDescription.role': ['The role that the person would get.', 'developer'],
    'InvitationDescription.invited_by': ['The name of the member who sent it.', 'Ada Lovelace'],
    'InvitationDescription.expires_at': ['The end of the link.', '2026-11-22T09:12:31Z'],
    'InvitationDescription.account_exists': [
      'True: sign in and accept. False: register with the link.',
      false,
    ],
    'AcceptedMembership.organization': ['Where you are a member now.'],
    'AcceptedMembership.role': ['The role that you have there now.', 'developer'],
    'RegisteredMembership.user': ['The account that was created.'],
    'RegisteredMembership.user.id': ['Names the new account in paths.', 5],
    'RegisteredMembership.user.name': ['As people see it.', 'Grace Hopper'],
    'RegisteredMembership.user.email': [
      'The invited address, which the account signs in with.',
      'grace@example.com',
    ],
    'MemberUpdate.role': ['The new role; not above your own.', 'developer'],

    'Token.id': ['Names it in `DELETE /api/tokens/{id}`.', 59],
    'Token.kind': ['`login`: from `berth login`. `personal`: created by hand.', 'personal'],
    'Token.name': ['The device, or the name given at creation.', 'nightly deployments'],
    'Token.hint': ['The last four characters, to recognise it.', 'x7Qf'],
    'Token.scopes': [SCOPES_SAID, ['read', 'deploy']],
    'Token.organization_id': ['The only organization it acts in; null: all of yours.', 7],
    'Token.last_used_at': ['When it was last sent; null: never.', '2026-11-15T02:00:04Z'],
    'Token.last_used_address': ['Where it was last sent from; null: never used.', '203.0.113.7'],
    'Token.expires_at': ['From then on it is refused; null: never.', '2027-02-13T09:12:31Z'],
    'TokenCreate.name': ['For your own list, at most 64 characters.', 'nightly deployments'],
    'TokenCreate.organization_id': [
      'Binds the token to one organization; null or absent: all of yours, unless the token in use is bound.',
      7,
    ],
    'TokenCreate.expires_in_days': ['Days until it is refused, 1 to 365.', 90],
    'TokenCreated.token': ['The token itself, shown only in this answer.', 'berth_pat_…'],

    client_id: ['The only accepted client is `berth-cli`.', 'berth-cli'],
    device_code: ['The client’s secret of this login; keep it out of logs.', 'dc_…'],
    refresh_token: [
      'Gets the next access token, once; it ends after 90 days without use. Using it twice ends the login.',
      'berth_rt_…',
    ],
    'postOauthDeviceAuthorization.scope': [
      'Wanted scopes, separated by spaces; without it `read deploy write ssh`.',
      'read deploy write ssh',
    ],
    'postOauthDeviceAuthorization.device_name': [
      'Shown to the person who approves, and in the list of tokens; at most 64 characters count.',
      'ada-laptop',
    ],
    'postOauthToken.grant_type': [
      '`urn:ietf:params:oauth:grant-type:device_code` with `device_code`, or `refresh_token` with `refresh_token`.',
      'urn:ietf:params:oauth:grant-type:device_code',
    ],
    'postOauthToken.scope': [
      'With a refresh token: the scopes that the login keeps, separated by spaces; `read` must be among them. Without it, all stay.',
      'read deploy',
    ],
    'postOauthRevoke.token': ['An access or refresh token.', 'berth_rt_…'],
    'DeviceAuthorization.user_code': ['What the person enters in the browser.', 'WDJB-MJHT'],
    'DeviceAuthorization.verification_uri': [
      'Where the person enters the code.',
      'https://deploy.example.com/device',
    ],
    'DeviceAuthorization.verification_uri_complete': [
      'The same with the code filled in; open it in a browser.',
      'https://deploy.example.com/device?code=WDJB-MJHT',
    ],
    'DeviceAuthorization.expires_in': ['Seconds until the codes are refused.', 900],
    'DeviceAuthorization.interval': ['Seconds between two polls; `slow_down` adds five.', 5],
    'TokenAnswer.access_token': ['Send it as `Authorization: Bearer …`.', 'berth_at_…'],
    'TokenAnswer.token_type': ['How the token is sent.'],
    'TokenAnswer.expires_in': ['Seconds until the access token is refused: 30 days.', 2_592_000],
    'TokenAnswer.scope': ['The granted scopes, separated by spaces.', 'read deploy write ssh'],
    'OauthError.error': ['The code of OAuth; programs decide by it.'],
    'OauthError.error_description': ['The reason, for people.', 'The login was denied.'],
    issuer: ['The address of this installation.', 'https://deploy.example.com'],
    token_endpoint: ['Where tokens are fetched.', 'https://deploy.example.com/api/oauth/token'],
    device_authorization_endpoint: [
      'Where a device login begins.',
      'https://deploy.example.com/api/oauth/device_authorization',
    ],
    revocation_endpoint: ['Where a login ends.', 'https://deploy.example.com/api/oauth/revoke'],
    grant_types_supported: [
      'Ways to get a token.',
      ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'],
    ],
    response_types_supported: ['Empty: no login redirects back to a client.', []],
    token_endpoint_auth_methods_supported: ['Clients have no secret of their own.', ['none']],
    revocation_endpoint_auth_methods_supported: ['Clients have no secret of their own.', ['none']],
    scopes_supported: [
      'Every scope that can be asked for.',
      ['read', 'deploy', 'write', 'ssh', 'admin'],
    ],

    'SetupRequest.token': [
      'The set-up token that the control plane prints at each start until it is set up.',
      'berth_setup_…',
    ],
    'SetupRequest.name': ['Of the first administrator, at most 100 characters.', 'Ada Lovelace'],
    'SetupRequest.email': ['Of the first administrator.', 'ada@example.com'],
    'SetupRequest.organization': ['The name of the first organization.', 'Analytical Engines'],
    'SetupRequest.password': [
      'For the dashboard, 10 to 128 characters; without it the administrator has a token but no password yet.',
      'correct horse battery',
    ],
    'SetupResponse.user': ['The account of the first administrator.'],
    'SetupResponse.organization': ['The first organization, owned by the administrator.'],
    'SetupResponse.token': [
      'A token of the administrator, shown only in this answer.',
      'berth_pat_…',
    ],
    'SetupResponse.expires_at': ['From then on the token is refused.', '2027-11-15T09:12:31Z'],
  },
}
