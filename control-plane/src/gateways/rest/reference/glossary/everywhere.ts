// What several subjects share: paging, ids of parents, times, people, problems.
import type { FieldEntry, Glossary } from './entries.ts'

export const COMMIT = 'c1364990f2b7a4e85d6f3b0a9c8e7d6f5a4b3c2d'

/** How a task looks in the answer that queued it. */
export const QUEUED = {
  status: 'queued',
  commit_message: null,
  commit_author: null,
  started_at: null,
  live_at: null,
  finished_at: null,
  duration_ms: null,
  log_lines: 0,
  log_complete: false,
  phases: [],
}

export const ONE_PAGE: FieldEntry = ['Accepted without effect: the list is always one page.', 50]

export const EVERYWHERE: Glossary = {
  operations: {},
  fields: {
    '?per_page': ['Items of one page, 1 to 100; 30 if it is absent.', 50],
    'listOrganizations.per_page': ONE_PAGE,
    'listProjectEnvironments.per_page': ONE_PAGE,
    'listProjectPullRequests.per_page': ONE_PAGE,
    'listProjectRefusedDeliveries.per_page': ONE_PAGE,
    'listServers.per_page': ONE_PAGE,
    '?cursor': [
      'Where the page begins, as the `next` address of the `Link` header has it. It is signed for this list; do not build or change it.',
      'eyJpIjo4MTJ9.k3Jw',
    ],
    '?since': ['Only what happened at this time or later.', '2026-11-15T00:00:00Z'],
    '?until': ['Only what happened before this time.', '2026-11-16T00:00:00Z'],
    '/projects/{id}': ['The project, by the `id` that `GET /api/projects` lists.', '12'],
    '/environments/{id}': [
      'The environment, by the `id` that `GET /api/projects/{id}/environments` lists.',
      '101',
    ],
    '/servers/{id}': ['The server, by the `id` that `GET /api/servers` lists.', '3'],
    '/tasks/{id}': ['The task, by the `id` in its environment’s history.', '812'],
    '/organizations/{id}': ['The organization, by the `id` that `GET /api/me` lists.', '7'],

    project_id: ['The project it belongs to.', 12],
    environment_id: ['The environment it belongs to.', 101],
    task_id: ['The task that did it; `GET /api/tasks/{id}` has its log.', 812],
    organization_id: ['The organization it belongs to.', 7],
    'organization.id': ['Names the organization in paths and in `X-Service-Organization`.', 7],
    'organization.name': ['As people see it.', 'Analytical Engines'],
    'organization.slug': ['The short name; unique on this installation.', 'engines'],
    'user.id': ['Names the account in paths.', 4],
    'user.name': ['As people see it.', 'Ada Lovelace'],
    'user.email': ['Where mail goes and what the account signs in with.', 'ada@example.com'],

    created_at: ['When it was created.', '2026-11-15T09:12:31Z'],
    updated_at: ['When it last changed.', '2026-11-15T09:14:02Z'],
    started_at: ['When it began; null before that.', '2026-11-15T09:12:33Z'],
    finished_at: ['When it ended; null before that.', '2026-11-15T09:14:02Z'],
    at: ['The time at which it happened.', '2026-11-15T09:14:02Z'],
    updated_by: ['Who changed it last.'],
    triggered_by: ['Who asked for it.'],
    commit_sha: ['The full hash of the commit; null while it is not known.', COMMIT],
    fingerprint: [
      'The SHA-256 of the public key, as `ssh-keygen -l` and forges show it.',
      'SHA256:Jw7Y1nq0s8m2xQe5rT9bV4kL6pZ3dF1hG7uC0aN2iOo',
    ],
    public_key: [
      'One line as in a `.pub` file.',
      'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExampl berth',
    ],
    recipe: [
      'How it is deployed: `docker` builds and runs containers, `manual` runs the commands of `.service.yml` on the server.',
    ],
    size_bytes: ['Bytes that it takes as stored.', 1_048_576],
    sha256: [
      'The SHA-256 of its bytes in hexadecimal; compare it after a download.',
      'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    ],
    address: ['The IP address that the request came from.', '203.0.113.7'],
    environment_count: ['Environments that exist now, of pull requests and manual ones.', 3],
    environment_limit: [
      'The most environments, of pull requests and manual ones together. 20 unless a platform administrator changed it.',
      20,
    ],

    'Person.id': ['The account; null if Berth itself, a forge or a removed account did it.', 4],
    'Person.name': ['As people see it.', 'Ada Lovelace'],

    'Problem.type': [
      'The address of a page that explains the code.',
      'https://deploy.example.com/docs/errors/not_found',
    ],
    'Problem.title': ['The meaning of the code, always the same for one code.', 'Not found'],
    'Problem.status': ['The HTTP status of this answer.', 404],
    'Problem.detail': [
      'What was refused this time, and what to do; for people.',
      "Not found, or you don't have access.",
    ],
    'Problem.instance': ['The path of the refused request.', '/api/environments/999'],
    'Problem.code': ['Programs decide by it; its meaning never changes.', 'not_found'],
    'Problem.request_id': ['Finds the request in the log of the control plane.', 'req_8f14e45f'],
    'Problem.errors': [
      'With `validation_failed` and `invalid_parameter`: everything that is wrong, at once.',
    ],
    'errors.field': ['The field or parameter, with dots for nested ones.', 'settings.build_slots'],
    'errors.code': ['What is wrong, for programs.', 'too_large'],
    'errors.message': ['What is wrong, for people.', 'must be at most 64'],
  },
}
