// Every promise of the specification, and the test that proves it: file and title. spec-coverage.test.ts fails if a
// title no longer exists.
export interface Promised {
  sentence: string
  proofs: [file: string, title: string][]
}

const specs = (file: string, ...titles: string[]): [string, string][] =>
  titles.map((title) => [`test/specs/${file}.test.ts`, title])
const contract = (...titles: string[]): [string, string][] =>
  titles.map((title) => ['test/contract/contract.test.ts', title])

export const PROMISES: Promised[] = [
  // What the service does
  {
    sentence: 'A project is tied to a repository, a base domain and one or more servers.',
    proofs: contract('a project in the list has exactly six fields, its servers three'),
  },
  {
    sentence: 'A pull-request environment is reachable at `pr-{number}.{domain}`.',
    proofs: specs(
      'environment-list',
      'a pull-request environment is reachable at pr-{number}.{domain}, and tells of its pull request',
    ),
  },
  {
    sentence: 'A deployment is run as a task of an environment.',
    proofs: specs('deployments', 'POST tasks starts a deployment, and the result is the task'),
  },
  {
    sentence: 'The endpoints of the table, their methods and paths.',
    proofs: contract('$method $path'),
  },
  {
    sentence: '`deploy --wait` waits for the result and exits non-zero when the deployment fails.',
    proofs: [
      [
        'cli/src/commands/deployments/deploy.test.ts',
        "failed: 3, with the failed step's last lines and what still runs",
      ],
    ],
  },
  {
    sentence: '`login` obtains the bearer token; it is stored in a credentials file.',
    proofs: specs(
      'client-login',
      'log in through a browser, work, be refreshed, log out: nothing opens any more',
    ),
  },
  {
    sentence: '`vars list`, `vars set`, `vars unset` use GET and PATCH of variables.',
    proofs: [
      ['cli/src/commands/changes.test.ts', 'list: keys, who and when'],
      ['cli/src/commands/changes.test.ts', 'unset: what was there and what was not'],
    ],
  },
  {
    sentence: '`logs` reads container logs.',
    proofs: [
      [
        'test/system/ssh-installation.test.ts',
        'berth logs -f shows more than a day, and ends when the environment does',
      ],
    ],
  },
  {
    sentence:
      '`mcp` runs a Model Context Protocol server with its tools, three of them only with `--allow-write`.',
    proofs: specs(
      'mcp',
      'the Model Context Protocol server offers these tools, the last three only when started with --allow-write',
    ),
  },
  {
    sentence: 'POST tasks starts the same deployment as the Deploy button of the dashboard.',
    proofs: specs('live', 'queries and errors are those of REST'),
  },
  {
    sentence:
      'When the deployment task cannot be created, the failure is reported, never as a successful trigger.',
    proofs: specs(
      'deployments',
      'when the task cannot be created the failure is reported, never a success',
    ),
  },
  {
    sentence: 'No endpoint ever returns the value of a custom variable. Only keys are returned.',
    proofs: specs(
      'values-nowhere',
      'No endpoint ever returns the value of a custom variable, and nothing keeps it in clear',
    ),
  },
  {
    sentence: 'No client command ever returns the value of a custom variable.',
    proofs: [
      ...specs('mcp', 'No client command ever returns the value of a custom variable'),
      [
        'cli/src/commands/changes.test.ts',
        'set: from an argument, from stdin, from a file; prints the hint, never a value',
      ],
    ],
  },
  {
    sentence:
      "A deployment that fails in one of the platform's own checks exposes the failed step and its message.",
    proofs: specs(
      'diagnostics',
      "A deployment that fails in one of the platform's own checks (for example a missing repository configuration file)",
      "Diagnostics report the failed step and its output, not a generic 'unparsed failure' text",
    ),
  },
  {
    sentence: 'Diagnostics point at the most recent failed deployment, not merely the latest one.',
    proofs: specs(
      'diagnostics',
      'Diagnostics point at the most recent failed deployment, not merely the latest one',
    ),
  },
  {
    sentence:
      'The raw deployment log of any task can be fetched, and logs older than 24 hours can be reached.',
    proofs: specs(
      'diagnostics',
      'The raw deployment log of any task can be fetched by the client, and logs older than 24 hours can be reached',
    ),
  },
  {
    sentence:
      'Custom variables set before the first deployment take effect from that first deployment, for both recipes.',
    proofs: specs(
      'variables',
      'Custom variables set before the first deployment of an environment take effect from that first deployment, for both recipes',
    ),
  },
  {
    sentence:
      "After a variable change the environment is flagged 'Variables changed since the last deployment' until the next deployment.",
    proofs: specs(
      'variables',
      "After a variable change the environment is flagged 'Variables changed since the last deployment' until the next deployment",
    ),
  },
  {
    sentence: 'The client prints the same hint.',
    proofs: [
      [
        'cli/src/commands/changes.test.ts',
        'set: from an argument, from stdin, from a file; prints the hint, never a value',
      ],
    ],
  },

  // Resources
  {
    sentence: 'Project and server have the fields of the two tables.',
    proofs: contract('a project in the list has exactly six fields, its servers three'),
  },
  {
    sentence: 'Recipe may be left empty, in which case it is inherited from the project default.',
    proofs: specs(
      'environment-list',
      'recipe may be left empty, in which case it is inherited from the project default',
    ),
  },
  {
    sentence: 'Basic Auth is set on creation, on the settings tab, or inherited from the project.',
    proofs: specs(
      'basic-auth',
      'set on creation, it is in force from the very first deployment',
      'inherited from the project unless the environment has its own or none',
    ),
  },
  {
    sentence: 'System variables are always present, even when custom variables exist.',
    proofs: specs(
      'variables',
      'System variables are always present, even when custom variables exist, and cannot be set',
    ),
  },
  {
    sentence:
      'Each project has its own randomly generated webhook secret, which the project owner can generate or regenerate.',
    proofs: specs(
      'webhook-secret',
      'each project has its own randomly generated webhook secret',
      'which the project owner can generate or regenerate, and owners of the organization, nobody else',
    ),
  },
  {
    sentence: 'Each project has its own Ed25519 SSH key pair for repository access.',
    proofs: specs(
      'webhook-secret',
      'each project has its own Ed25519 SSH key pair; a new one leaves the former line visible',
    ),
  },
  {
    sentence:
      '`.service.yml` may carry a section for each recipe; each recipe reads only the keys it needs.',
    proofs: [
      ['shared/src/service-file/routes.test.ts', 'a section that is not there routes nothing'],
    ],
  },
  {
    sentence: '`domain` per service; services with independent routing.',
    proofs: [
      ['test/system/docker-life.test.ts', 'with two services, data and a release command'],
      ['test/system/manual-routes.test.ts', 'answer at their hosts, and tell where'],
    ],
  },
  {
    sentence: '`actions`, synced on each deployment, run on demand.',
    proofs: specs(
      'actions',
      'each deployment that succeeds replaces the list, one that fails leaves it',
      'one runs as a task of its own, with nobody but the server knowing its values',
    ),
  },
  {
    sentence: 'The files are collected after the run and offered as one download link per file.',
    proofs: [
      ...specs(
        'artifacts',
        'The files are collected after the run and offered as one download link per file.',
      ),
      [
        'test/system/artifacts.test.ts',
        'collects the regular files that match, and nothing that only looks like one',
      ],
    ],
  },
  {
    sentence: 'For the manual recipe, deploy and destroy tasks run directly on the server.',
    proofs: [
      [
        'test/system/removal.test.ts',
        'leaves no process, file or account, and nothing comes back with the daemon',
      ],
    ],
  },

  // States and transitions
  {
    sentence:
      'Pull request opened, fewer environments than the limit: an environment is created and deployed.',
    proofs: specs(
      'pull-requests',
      'Pull request opened, project has fewer environments than its limit: a pull-request environment is created and deployed',
    ),
  },
  {
    sentence: 'Pull request opened at the limit: no environment is created until one is deleted.',
    proofs: specs(
      'pull-requests',
      'Pull request opened, project is at its environment limit: no environment is created until one is deleted',
      'limit 20, 25 pull requests: the five get environments in order as places empty',
    ),
  },
  {
    sentence: 'Push, auto-deploy enabled and not protected: the environment is redeployed.',
    proofs: specs(
      'pull-requests',
      'Push to tracked branch or pull-request branch, auto-deploy on push enabled and environment not protected: environment is redeployed',
    ),
  },
  {
    sentence:
      'Push or webhook event, protected: no automatic deployment; protection takes priority.',
    proofs: specs(
      'pull-requests',
      'Push or webhook event, environment protected: no automatic deployment; protection takes priority over auto-deploy on push',
    ),
  },
  {
    sentence: 'Pull request merged: its environment is removed.',
    proofs: specs(
      'pull-requests',
      'Pull request merged, pull-request environment exists: environment is removed',
    ),
  },
  {
    sentence:
      'Project deletion: each environment is first stopped and removed, the project disappears after the last; protected ones require confirmation.',
    proofs: specs(
      'deletion',
      'each environment is first stopped and removed from its server, then the project disappears after the last one is gone',
      'protected environments require confirmation',
    ),
  },
  {
    sentence:
      'While a deployment is queued or running, Deploy and Delete Environment are locked, also when it came from a webhook; released when it finishes.',
    proofs: specs(
      'lock',
      'the Deploy and Delete Environment actions are locked while it is queued, and while it is running',
      'This holds also when the running deployment came from a webhook',
      'The lock is released when the deployment finishes',
    ),
  },
  {
    sentence:
      'While protected, only its owner can deploy, edit or delete it, or change its variables and settings. Other users can view it.',
    proofs: specs(
      'protection',
      'only its owner can deploy, edit or delete it, or change its variables and settings',
      'Other users can view it',
    ),
  },
  {
    sentence:
      'Its title, server and domain cannot be changed. Protection must be removed and saved first.',
    proofs: specs(
      'protection',
      'its title, server and domain cannot be changed. Protection must be removed and saved first',
    ),
  },
  {
    sentence: 'Reset environment is not offered.',
    proofs: specs('protection', 'Reset environment is not offered'),
  },
  {
    sentence:
      'Sticky environments are listed first, then manual, then pull-request; within each group the newest first.',
    proofs: specs(
      'environment-list',
      'Sticky environments are listed first, then manual, then pull-request environments. Within each group the newest comes first',
    ),
  },
  {
    sentence: '`GET /api/environments/{id}/logs` no longer exists.',
    proofs: contract('GET /api/environments/{id}/logs no longer exists, and says where logs are'),
  },

  // Authentication
  {
    sentence: 'Every request carries `Authorization: Bearer <ACCESS_TOKEN>`.',
    proofs: specs('rest', 'no token, a wrong one, one in the address'),
  },
  {
    sentence: 'The same token may be used by custom integrations.',
    proofs: specs(
      'device-login',
      'a client starts, a signed-in person approves, the client gets its tokens once',
    ),
  },
  {
    sentence: '`X-Service-Organization` scopes the results to that organization.',
    proofs: specs(
      'organizations',
      'present: lists are filtered, things of others are not found, new things go there',
    ),
  },
  {
    sentence: 'Organizations group projects and members with role-based access.',
    proofs: [
      ...specs('tenants', 'own things: as the role allows, and no more'),
      ['control-plane/src/domain/core/access.test.ts', 'viewer'],
    ],
  },

  {
    sentence:
      "The Model Context Protocol server acts as the logged-in user, with that user's access.",
    proofs: specs('mcp', 'acts as the logged-in user, with that user’s access'),
  },

  // Events
  {
    sentence: "Webhooks are each authenticated by the project's own webhook secret.",
    proofs: specs(
      'webhooks',
      'no, empty, truncated, other, SHA-1 or changed signatures are refused and change nothing',
      'every signed delivery is answered 202 and stands in the ledger',
    ),
  },
  {
    sentence:
      'Projects created before the per-project secret existed keep working with their earlier secret until a new one is generated and the host is updated.',
    proofs: specs(
      'webhook-secret',
      'Projects created before the per-project secret existed keep working with their earlier secret until a new one is generated and the repository host is updated',
    ),
  },
  {
    sentence:
      'Live updates of environments, projects and deployment progress over a WebSocket, grouped by phase with timing.',
    proofs: specs(
      'live',
      'environments, projects and deployment progress, grouped by what they are about',
    ),
  },
  {
    sentence: 'Email notifications are sent for password resets, invitations and system alerts.',
    proofs: [
      ...specs('people', 'works once, ends every session and login, and lets the new password in'),
      ...specs(
        'organizations',
        'go to one address, are used once, and are in no answer, list or row',
      ),
      ...specs(
        'alerts',
        'server offline for five minutes: once, over a restart as well, and once that it is back',
      ),
      ...specs('mail', 'a letter is sent once, whole, and its text is gone afterwards'),
    ],
  },

  // Errors, limits, versions
  {
    sentence:
      'Artifact download when the server or file is unavailable: a clear error is returned instead of an empty file.',
    proofs: [
      ...specs(
        'artifacts',
        'A clear error is returned instead of an empty file: gone, changed, swapped, expired.',
        'A clear error is returned when the server is unavailable; the link works when it is back.',
        'the agent dies in the middle: the connection breaks, nobody takes the part for the file',
      ),
      ['cli/src/commands/files/artifacts.test.ts', '%s: exit 1, a sentence, and no file'],
    ],
  },
  {
    sentence: 'Files are fetched directly from the deployment server over SSH.',
    proofs: [
      [
        'test/system/ssh-installation.test.ts',
        'berth artifacts download brings files straight from the server: whole, or none',
      ],
    ],
  },
  {
    sentence: 'A retention of 7 days for downloadable action files.',
    proofs: [
      [
        'test/system/artifacts.test.ts',
        'keeps them as long as the file says, then says that they expired',
      ],
    ],
  },
  {
    sentence: 'Environment at project limit: creation is disabled and pull requests receive none.',
    proofs: specs(
      'environment-limit',
      '20 by default; a project at its limit gets no further environment',
    ),
  },
  {
    sentence: '20 by default; a platform administrator can change it; the list shows used/limit.',
    proofs: [
      ...specs(
        'environment-limit',
        'A platform administrator can change it, and nobody else, whatever role',
      ),
      ...specs('rest', 'used and limit of environments stand in headers'),
    ],
  },
  {
    sentence: 'Requesting an SSH certificate for a server.',
    proofs: specs(
      'ssh-certificates',
      'has exactly the documented fields, and the certificate says the same',
    ),
  },
  {
    sentence: 'Release numbers v<major>.<minor>.<patch>; the API path carries no version segment.',
    proofs: specs('rest', 'an unchanged answer is 304, and every answer names request and version'),
  },
]
