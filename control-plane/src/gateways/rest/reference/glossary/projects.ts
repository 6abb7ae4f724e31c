// Projects: their settings, keys, limits and image registries.
import type { Glossary } from './entries.ts'

const OWNER = {
  name: 'project_owner',
  who: "the project's owner or an owner of its organization",
}

export const PROJECTS: Glossary = {
  operations: {
    listProjects: {
      title: 'List projects',
      says: 'Lists the projects of your organizations by name, six fields each; the organization header narrows it to one.',
    },
    createProject: {
      title: 'Create a project',
      says: 'Creates a project with its own SSH key and webhook secret, and makes you its owner. Add `repo_public_key` at the forge as a read-only deploy key, and `webhook.url` with `webhook_secret` as a webhook, or let `PUT /api/projects/{id}/forge` add both.',
      body: {
        name: 'shop',
        repo_url: 'git@github.com:engines/shop.git',
        domain: 'shop.example.com',
        server_ids: [3],
      },
    },
    getProject: {
      title: 'Read a project',
      says: 'Answers all settings of a project and what is known of its repository and webhook. No secret is in it.',
    },
    updateProject: {
      title: 'Change a project',
      says: 'Changes the given settings; absent fields stay as they are. A new `domain` also moves unprotected environments at their usual address, with their next deployment.',
      also: "Only the project's owner and owners of the organization may change `owner_id`.",
      body: { default_branch: 'main', auto_deploy: true },
    },
    deleteProject: {
      title: 'Delete a project',
      says: 'Stops and removes every environment from its server; the project disappears after the last one. Protected environments must be confirmed. Ask again to retry removals that failed.',
      answer: { status: 'deleting' },
    },
    postProjectWebhookSecret: {
      title: 'Replace the webhook secret',
      says: 'Creates a new webhook secret and shows it this once. The former one is accepted for another day, or until the first delivery with the new one.',
      permission: OWNER,
      scope: 'admin',
    },
    deleteProjectWebhookSecretPrevious: {
      title: 'End the former webhook secret',
      says: 'Refuses the former webhook secret from now on; use it if that secret leaked. 404 if none is accepted any more.',
      permission: OWNER,
      scope: 'admin',
    },
    getProjectDeployKey: {
      title: 'Read the deploy key',
      says: 'Answers the public half of the key that reads the repository, to add at the forge.',
    },
    postProjectDeployKey: {
      title: 'Replace the deploy key',
      says: 'Creates a new Ed25519 key pair; the former one is used no longer. Add the new public key at the forge, then remove `previous` there. Until then the repository cannot be read over SSH.',
    },
    getProjectHostKey: {
      title: "Read the forge's SSH host key",
      says: 'Asks the forge which SSH host keys it shows now and compares them with the accepted ones. It connects to the forge, so it is limited more strictly.',
    },
    postProjectHostKey: {
      title: "Trust the forge's SSH host key",
      says: 'Accepts exactly this key of the forge from now on, on the control plane and on every server. The forge must show it at that moment (409 `host_key_not_offered`).',
      permission: OWNER,
      scope: 'admin',
    },
    setProjectBasicAuth: {
      title: 'Set Basic Auth of a project',
      says: 'Sets the user name and password that visitors of its environments need, or turns it off. Environments that inherit follow at once; those with their own stay.',
      body: { mode: 'own', username: 'preview', password: 'let-me-look' },
    },
    setProjectEnvironmentLimit: {
      title: 'Set the limit of environments',
      says: 'Changes how many environments the project may have. A lower limit removes nothing; it only stops new ones. A higher one lets waiting pull requests in.',
      permission: { name: 'platform_admin', who: 'a platform administrator' },
    },
    listOrganizationRegistries: {
      says: 'Lists the image registries whose credentials every project of the organization uses. Passwords are never returned.',
    },
    setOrganizationRegistry: {
      says: 'Stores or replaces the credentials of one registry for all projects of the organization. The next deployment uses them.',
    },
    deleteOrganizationRegistry: {
      says: 'Removes the credentials; the next deployment pulls from that registry without them.',
    },
    listProjectRegistries: {
      says: 'Lists the image registries of a project: its own, and those of its organization that it does not replace. Passwords are never returned.',
    },
    setProjectRegistry: {
      says: 'Stores or replaces the credentials of one registry for this project. They win over those of the organization; the next deployment uses them.',
    },
    deleteProjectRegistry: {
      says: 'Removes the project’s own credentials; those of the organization apply again. 404 if the project has none of its own.',
    },
  },
  fields: {
    'listProjects.name': ['Only the project with exactly this name.', 'shop'],
    'deleteProject.confirm': ['Repeats the project’s name.', 'shop'],
    'deleteProject.confirm_protected': [
      'Every protected environment that is to be deleted too, by identifier or id, with commas.',
      'staging,102',
    ],
    '{host}': [
      'The registry: a host name, with its port unless it is the usual one. Docker Hub is `docker.io`.',
      'ghcr.io',
    ],

    'Project.id': ['The project identifier; other requests name it in their path.', 12],
    'Project.name': ['The project name, unique in its organization.', 'shop'],
    'Project.repo_url': [
      'The repository address, over SSH or HTTPS.',
      'git@github.com:engines/shop.git',
    ],
    'Project.domain': [
      'The base domain: an environment is at `{identifier}.{domain}`, a pull request at `pr-{number}.{domain}`.',
      'shop.example.com',
    ],
    'Project.environment_count': ['The number of environments of the project.', 3],
    'Project.servers': ['The servers of the project, by name.'],
    'ProjectDetail.status': [
      '`deleting`: its environments are being removed; it accepts no changes.',
    ],
    'ProjectDetail.owner': ['May change secrets and hand the project over.'],
    'ProjectDetail.owner_id': ['The account of the new owner: a member who may deploy.', 4],
    'ProjectDetail.default_recipe': ['The recipe of environments that set none.', 'docker'],
    'ProjectDetail.default_branch': [
      'The branch whose `.service.yml` is checked, and a suggestion for new environments; read from the repository if it was never set.',
      'main',
    ],
    'ProjectDetail.default_server_id': [
      'Where pull requests and environments without a server of their own go; one of the project’s servers. Null if it has none.',
      3,
    ],
    'ProjectDetail.server_ids': [
      'The servers of the project, 1 to 100. In a change the list replaces the former one; a server that holds environments must stay.',
      [3],
    ],
    'ProjectDetail.limits': [
      'The most that one environment may use; the server’s own limits apply as well.',
    ],
    'ProjectDetail.pull_request_environments': [
      'Whether each open pull request gets an environment.',
      true,
    ],
    'ProjectDetail.pull_request_bases': [
      'Patterns of target branches; pull requests into other branches get no environment. `**` is any.',
      ['main', 'release/*'],
    ],
    'ProjectDetail.deploy_drafts': [
      'Whether pull requests marked as drafts are deployed too.',
      true,
    ],
    'ProjectDetail.fork_pull_requests': [
      '`approve`: each commit of a fork waits until a member approves it. `never`: forks are not deployed.',
    ],
    'ProjectDetail.auto_deploy': [
      'Whether new environments are redeployed on push; each environment can differ. Protection comes first.',
      true,
    ],
    'ProjectDetail.watch_paths': [
      'Patterns of files; a push that changes none of them is not deployed. Empty: every push is.',
      ['apps/web/**'],
    ],
    'ProjectDetail.skip_marker': [
      'Whether a commit whose message contains `[skip deploy]` is not deployed automatically.',
      false,
    ],
    'ProjectDetail.comment_on_pull_requests': [
      'Whether Berth keeps one comment with the address and result on each pull request; needs a connection to the forge or a token for it.',
      false,
    ],
    'ProjectDetail.custom_domains': [
      'Domains outside of the base domain that its services may use. Matters if the installation allows only listed ones.',
      ['www.example.com'],
    ],
    'ProjectDetail.lost_after_seconds': [
      'A running deployment fails if its server is silent for this long: 60 to 86,400 seconds, 600 at first.',
      600,
    ],
    'ProjectDetail.basic_auth': [
      'What visitors of its environments need, unless an environment has its own.',
    ],
    'ProjectDetail.webhook': ['The webhook that the forge sends to.'],
    'webhook.url': ['Where the forge sends deliveries.', 'https://deploy.example.com/webhooks/12'],
    'webhook.secret_source': [
      '`legacy`: the project still uses the secret from before each project had its own.',
    ],
    'webhook.secret_rotated_at': [
      'When the present secret was created; null: there is none of its own yet.',
      '2026-11-01T10:00:00Z',
    ],
    'webhook.last_delivery_at': [
      'When the last delivery with a right signature arrived; null: none yet.',
      '2026-11-15T09:12:30Z',
    ],
    'webhook.last_delivery_secret': [
      'Which secret that delivery was signed with; null: none arrived yet.',
    ],
    previous_accepted_until: [
      'The former secret is accepted until then; null: it is refused.',
      null,
    ],
    'ProjectDetail.repo_public_key': [
      'The project’s own Ed25519 key as one OpenSSH line; add it at the forge as a read-only deploy key.',
      'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExampl berth shop',
    ],
    'ProjectDetail.repository': ['What the control plane knows of the repository.'],
    'ProjectDetail.forge': [
      'Whether the project uses a connection to its forge, and whether that works.',
    ],
    'ProjectDetail.host_token': ['Whether a token for the forge’s API is stored.'],
    'ProjectCreated.webhook_secret': [
      'The secret to enter at the forge, shown only in this answer.',
      'whsec_…',
    ],
    'WebhookSecret.secret': [
      'The secret to enter at the forge, shown only in this answer.',
      'whsec_…',
    ],
    'WebhookSecret.previous_accepted_until': [
      'The former secret is accepted until then, or until the first delivery with the new one; null: there was none.',
      '2026-11-16T09:12:31Z',
    ],

    'DeployKey.previous': [
      'The public key before this one, to remove at the forge; null: there was none.',
      null,
    ],
    'ForgeHostKey.host': [
      'The forge as a `known_hosts` file names it; null if the repository is not read over SSH.',
      'github.com',
    ],
    'ForgeHostKey.trust': [
      '`trusted`: an owner named the key. `first_use`: the first key that was seen. `none`: none was seen yet.',
      'first_use',
    ],
    'ForgeHostKey.trusted_at': ['When an owner named the key; null: no owner did.', null],
    'ForgeHostKey.known': [
      'Keys that are accepted from this forge; empty before the first contact.',
    ],
    'ForgeHostKey.offered': ['Keys that the forge shows now; empty if it could not be reached.'],
    'known.type': ['The kind of key.', 'ssh-ed25519'],
    'offered.type': ['The kind of key.', 'ssh-ed25519'],
    'ForgeHostKey.changed': [
      'The forge shows none of the accepted keys. Check the new one at the forge before you trust it.',
      false,
    ],
    'ForgeHostKey.error': ['Why the forge could not be reached; null: it answered.', null],
    'ForgeHostKey.error.code': ['The reason, for programs.', 'timeout'],
    'ForgeHostKey.error.message': ['The reason, for people.', 'github.com did not answer.'],
    'ForgeHostKeyPost.fingerprint': [
      'Of a key in `offered`; compare it with what the forge publishes.',
      'SHA256:Jw7Y1nq0s8m2xQe5rT9bV4kL6pZ3dF1hG7uC0aN2iOo',
    ],
    'EnvironmentLimitPut.limit': ['Environments at most, 1 to 500.', 30],
    'EnvironmentLimit.limit': ['Environments at most, from now on.', 30],
    'EnvironmentLimit.used': ['Environments that exist now.', 3],

    memory_bytes: ['Memory in bytes; null: the server’s size decides.', 2_147_483_648],
    cpus: ['Processors, also parts of one; null: the server’s size decides.', 1.5],
    pids: ['Processes and threads together; null: 4,096.', 4_096],
    disk_bytes: ['Disk space in bytes; null: the server’s size decides.', 10_737_418_240],

    'Registry.host': ['The registry, as images name it.', 'ghcr.io'],
    'Registry.username': ['The account that signs in to the registry.', 'engines-bot'],
    'Registry.from': [
      '`organization`: for every project. `project`: only this one; it wins.',
      'project',
    ],
    'RegistryPut.username': [
      'The account at the registry: no colon, no control characters, at most 256.',
      'engines-bot',
    ],
    'RegistryPut.password': [
      'A password or, better, an access token that may only pull. It is never returned.',
      'ghp_…',
    ],
    username: [
      'The user name that visitors enter: 1 to 64 characters without blanks and colons.',
      'preview',
    ],
    'BasicAuth.username': ['The user name that visitors enter; null while it is off.', 'preview'],
    password: ['8 to 72 bytes. Stored as a hash and never returned.', 'let-me-look'],
    mode: [
      '`own`: the given name and password. `inherit`: those of the project. `off`: everyone can visit.',
    ],
    'BasicAuth.enabled': ['Whether visitors need the password, after inheritance.', true],
    'BasicAuth.mode': ['`own`, `inherit` from the project, or `off`.', 'own'],
  },
}
