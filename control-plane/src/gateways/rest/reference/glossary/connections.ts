// Connections to forges: of an organization, the repositories that they open, and that of a project.
import type { Glossary } from './entries.ts'

const API = 'https://git.example.com/api/v1'

export const CONNECTIONS: Glossary = {
  operations: {
    listOrganizationForges: {
      says: 'Lists the forges that the organization is connected to, all on one page. Tokens are never returned.',
    },
    createOrganizationForge: {
      says: 'Checks a token at the API of a forge and stores it encrypted for all projects of the organization. Name `api_url`, `repo_url` or, for the public forges, `provider`. A token that the forge refuses is not stored (422). The same token for the same API stays one connection; an organization can have 50.',
      body: { token: 'gto_example', provider: 'gitea', api_url: 'https://git.example.com' },
    },
    updateForge: {
      says: 'Gives a connection another token or API address, after a check at the forge; its projects keep using it. A stored token is never sent to another host, so a new one needs the token again.',
      body: { token: 'gto_newer_example' },
    },
    deleteForge: {
      says: 'Deletes the stored token of a connection that no project uses; otherwise 409 `forge_in_use` names the projects. Revoke the token at the forge as well.',
    },
    listForgeRepositories: {
      says: 'Asks the forge which repositories the token opens, page by page in the forge’s own order, and marks those that a project has already. It connects to the forge, so it is limited more strictly.',
    },
    getProjectForge: {
      says: 'Answers which connection a project uses and what the last check of token, deploy key, webhook and deliveries found. It reads what is stored and asks no forge.',
    },
    setProjectForge: {
      says: 'Connects a project with a connection of its organization or with a new token: adds deploy key and webhook at the forge and asks for a test delivery. Repeat it to repair them. What the token may not do is in `checks` and does not undo the rest. It replaces a token that the project had for itself.',
      body: { connection_id: 3 },
    },
    deleteProjectForge: {
      says: 'Removes deploy key and webhook at the forge as far as its token allows and answers what is left to remove by hand. The organization keeps the connection. 404 if the project has none.',
      answer: { removed: ['deploy_key', 'webhook'], left: [] },
    },
    postProjectForgeCheck: {
      says: 'Looks now instead of within a day whether token, deploy key, webhook and deliveries work, and stores what it found. It changes nothing at the forge. 404 if the project has no connection.',
    },
  },
  fields: {
    '/forges/{id}': ['The connection, by the `id` in the list of its organization.', '3'],
    'listForgeRepositories.search': ['Only repositories whose name contains this.', 'shop'],

    'ForgeConnection.id': ['Names it in paths and in `connection_id`.', 3],
    'ForgeConnection.organization_id': ['The organization whose projects may use it.', 7],
    'ForgeConnection.provider': ['The kind of forge that accepted the token.', 'gitea'],
    'ForgeConnection.api_url': ['The address of the forge’s API.', API],
    'ForgeConnection.account': [
      'The account at the forge that the token belongs to; empty if it belongs to none.',
      'berth-bot',
    ],
    'ForgeConnection.project_count': ['Projects that use it now.', 2],
    'ForgeConnection.created_at': ['When it was connected.', '2026-11-01T10:00:00Z'],
    'ForgeConnection.created_by': ['Who connected the forge.'],
    'ForgeConnection.checked_at': [
      'When the forge last accepted or refused the token; null: never.',
      '2026-11-15T09:10:00Z',
    ],
    'ForgeConnection.error': ['Why the token failed last; null: it works.', null],
    'ForgeConnectionPost.token': [
      'A token for the API of the forge, at most 1,000 printable characters. It is stored encrypted and never returned.',
      'gto_example',
    ],
    'ForgeConnectionPost.provider': ['The kind of forge; found out if it is absent.', 'gitea'],
    'ForgeConnectionPost.api_url': [
      'The address of the API with port and path. Its usual end (`/api/v1`, `/api/v4` …) may be left out.',
      'https://git.example.com:8443/gitea/api/v1',
    ],
    'ForgeConnectionPost.repo_url': [
      'Any repository at this forge; it tells where the API is if `api_url` is absent.',
      'https://git.example.com/engines/shop.git',
    ],

    'ForgeRepository.full_name': ['Its name at the forge, with owner or group.', 'engines/shop'],
    'ForgeRepository.description': [
      'Its description at the forge; empty: it has none.',
      'The web shop',
    ],
    'ForgeRepository.private': ['Whether only members see it; null: the forge does not say.', true],
    'ForgeRepository.archived': ['Whether the forge lets it change no more.', false],
    'ForgeRepository.default_branch': [
      'As the forge names it; null: the forge does not say.',
      'main',
    ],
    'ForgeRepository.web_url': [
      'Its page at the forge; empty: the forge sends none.',
      'https://git.example.com/engines/shop',
    ],
    'ForgeRepository.ssh_url': [
      'Its address over SSH, for `repo_url` of a new project.',
      'git@git.example.com:engines/shop.git',
    ],
    'ForgeRepository.https_url': [
      'Its address over HTTPS, for `repo_url` of a new project.',
      'https://git.example.com/engines/shop.git',
    ],
    'ForgeRepository.can_admin': [
      'Whether the token may add a deploy key and a webhook; null: the forge does not say.',
      true,
    ],
    'ForgeRepository.updated_at': [
      'When it last changed; null: the forge does not say.',
      '2026-11-15T09:10:00Z',
    ],
    'ForgeRepository.project_ids': [
      'Projects of the organization that have this repository.',
      [12],
    ],

    'ForgeFacts.connected': ['Whether the project uses a connection to a forge.', true],
    'ForgeFacts.status': [
      '`broken`: the last check failed somewhere. `unchecked`: connected, and not checked yet.',
      'ok',
    ],
    'ForgeFacts.checked_at': ['When it was last checked; null: never.', '2026-11-15T09:10:00Z'],
    'ProjectForge.connection': ['The connection that it uses; null: none.'],
    'ProjectForge.repository': [
      'The name of the repository at the forge; null: not connected.',
      'engines/shop',
    ],
    'ProjectForge.next_check_at': [
      'When Berth checks again by itself; null: not connected.',
      '2026-11-16T09:10:00Z',
    ],
    'ProjectForge.checks': ['What was checked, in this order; empty: nothing yet.'],
    'ForgeCheck.name': [
      'What was looked at. `delivery`: whether deliveries of the webhook arrive.',
      'webhook',
    ],
    'ForgeCheck.status': [
      '`unknown`: it could not be looked at, or nothing was delivered yet.',
      'ok',
    ],
    'ForgeCheck.message': [
      'What was found and, if it failed, what to do.',
      'The webhook sends pushes and pull requests.',
    ],
    'ForgeCheck.permission': [
      'The permission that the token lacks, as the forge names it; null: none is known to be missing.',
      null,
    ],
    'setProjectForge.connection_id': ['A connection of the project’s organization.', 3],

    'ForgeDisconnected.removed': ['What was removed at the forge.', ['deploy_key', 'webhook']],
    'ForgeDisconnected.left': ['What could not be removed there; remove it by hand.'],
    'left.what': ['What is still at the forge.', 'webhook'],
    'left.message': ['Why it could not be removed.', 'git.example.com rejected the token.'],
  },
}
