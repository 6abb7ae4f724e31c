// Repositories and forges: deliveries of webhooks, pull requests, tokens, checks.

import type { Glossary } from './entries.ts'
import { COMMIT } from './everywhere.ts'

export const FORGES: Glossary = {
  operations: {
    postWebhook: {
      says: 'Takes a push or pull-request event of GitHub, GitLab, Gitea, Forgejo or Bitbucket, at most 25 MiB. A verified delivery always gets 202; the body says what it led to. Deliveries may come late, twice and in any order.',
      also: 'The signature with the project’s webhook secret is the proof.',
    },
    listProjectDeliveries: {
      says: 'Lists what the forge sent in the last 30 days and what Berth decided, page by page.',
    },
    listProjectRefusedDeliveries: {
      says: 'Lists the last 20 deliveries with a wrong signature: time, address and forge. Their contents are not kept. Use it to find a secret that does not match.',
    },
    getDelivery: {
      says: 'Answers one delivery with its headers (without credentials) and the event as Berth understood it.',
      also: 'The body is included for 7 days, with the permission `project:write`.',
    },
    postDeliveryRedeliver: {
      says: 'Decides the stored event again with the present state, as a new delivery. 410 `delivery_expired` when its contents are no longer kept.',
      answer: { replay_of: 5521, id: 5530 },
    },
    listProjectPullRequests: {
      says: 'Lists open pull requests, with what those without an environment wait for and their place on the waiting list. All are on one page.',
    },
    postProjectPullRequestApprove: {
      says: 'Allows this one commit of a fork to be deployed, and deploys it. A later commit needs another approval. Review the code first: it runs on your server.',
    },
    postProjectRepositoryCheck: {
      title: 'Check the repository',
      says: 'Reads the repository with the project’s key and answers whether that works, its branches, and every problem in its `.service.yml`. Nothing is deployed. An unreachable repository is an answer, not an error.',
    },
    postProjectReconcile: {
      title: 'Catch up on missed events',
      says: 'Compares branches and pull requests with the repository now instead of within five minutes, and deploys what changed. The work continues after the answer; at most once a minute.',
    },
    setProjectHostToken: {
      title: 'Store the token of a forge',
      says: 'Checks a token at the API of the project’s forge and stores it encrypted; with it Berth sets commit statuses and comments and reads pull requests. A token that the forge refuses is not stored (422).',
    },
    deleteProjectHostToken: {
      title: 'Remove the token of a forge',
      says: 'Deletes the stored token. Deployments continue; statuses and comments at the forge end.',
    },
  },
  fields: {
    '{project_id}': ['The project whose webhook this is.', '12'],
    '/deliveries/{id}': ['The delivery, by the `id` in the project’s list.', '5521'],
    '{number}': ['The number of the pull request at the forge.', '42'],
    'listProjectDeliveries.outcome': ['Only deliveries with this outcome.', 'queued'],
    'listProjectDeliveries.rule': ['Only deliveries that this rule decided.', 'redeployed'],
    'listProjectDeliveries.event': ['Only this event, as the forge names it.', 'push'],
    'listProjectDeliveries.pull_request': [
      'Only deliveries about the pull request with this number.',
      42,
    ],

    'Delivery.id': ['Names it in paths.', 5521],
    'Delivery.provider': [
      'The kind of forge; null for Berth’s own look at the repository before the kind is known.',
      'github',
    ],
    'Delivery.delivery_id': [
      'The forge’s own id of the delivery; a second one with the same id is a `duplicate`.',
      '72d3162e-cc78-11e3-81ab-4c9367dc0958',
    ],
    'Delivery.event': ['The event, as the forge names it.', 'pull_request'],
    'Delivery.received_at': ['When the forge sent it here.', '2026-11-15T09:12:30Z'],
    'Delivery.actor': ['Who caused it, as the forge says; null: not said.', 'ada'],
    'Delivery.branch': ['The branch it is about; null: none.', 'feature/checkout'],
    'Delivery.pull_request_number': ['The pull request it is about; null: none.', 42],
    'Delivery.sha': ['The commit it is about; null: none.', COMMIT],
    'Delivery.signed_with': [
      'Which webhook secret fits the signature; null for Berth’s own look at the repository.',
      'current',
    ],
    outcome: [
      '`queued`: a task exists. `waiting`: it comes later. `applied`: only the record changed. `received`: not decided yet. The others changed nothing.',
      'queued',
    ],
    rule: ['The rule that decided; null while it is undecided.', 'redeployed'],
    'Delivery.reason': [
      'Why, for people; null while it is undecided.',
      'pr-42 is redeployed at c136499.',
    ],
    'Delivery.results': ['One result for each environment that it is about.'],
    'results.environment_id': ['The environment; null: none exists for it.', 101],
    'results.identifier': ['The identifier of that environment; null: none.', 'pr-42'],
    'results.reason': ['Why it was decided so, for people.', 'pr-42 is redeployed at c136499.'],
    'results.task_id': ['The task that it led to; null: none.', 812],
    'Delivery.task_ids': ['All tasks that it led to.', [812]],
    'Delivery.replay_of': [
      'The delivery that was decided again; null: it came from the forge.',
      null,
    ],
    'Delivery.tries': ['How often Berth tried to decide it.', 1],
    'Delivery.response_status': ['The HTTP status that the forge got.', 202],
    'Delivery.error': ['What went wrong while it was decided; null: nothing.', null],
    'DeliveryDetail.headers': [
      'The request’s headers without credentials and signatures.',
      { 'x-github-event': 'pull_request', 'content-type': 'application/json' },
    ],
    'DeliveryDetail.normalised': [
      'The event in the form that all forges share; null if it was not understood.',
      { kind: 'pull_request', action: 'opened' },
    ],
    'DeliveryDetail.body_sha256': [
      'The SHA-256 of the body in hexadecimal; stays after the body is gone.',
      'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855',
    ],
    'DeliveryDetail.body_bytes': ['The length of the body.', 18_412],
    'DeliveryDetail.body': [
      'The body as received; null after 7 days, or without the permission `project:write`.',
      '{"action":"opened","number":42}',
    ],
    'RefusedDelivery.provider': ['The kind of forge that it claims; null: unknown.', 'github'],
    'RefusedDelivery.reason': [
      'Why it was refused.',
      'The signature fits no secret of the project.',
    ],
    'WebhookAnswer.delivery': [
      'The stored delivery; `GET /api/deliveries/{id}` has the rest.',
      5521,
    ],
    'WebhookAnswer.reason': [
      'Why it was decided so, for people; forges show it in their own list.',
      'pr-42 is redeployed at c136499.',
    ],
    'WebhookAnswer.task_ids': ['Tasks that it led to.', [812]],

    'PullRequest.number': ['Its number at the forge.', 42],
    'PullRequest.title': ['Its title at the forge.', 'Faster checkout'],
    'PullRequest.url': ['Its page at the forge.', 'https://github.com/engines/shop/pull/42'],
    'PullRequest.author': ['The account at the forge that opened it.', 'ada'],
    'PullRequest.state': [
      '`presumed_closed`: its branch is gone, and no event said why yet.',
      'open',
    ],
    'PullRequest.draft': ['Whether the forge marks it as a draft.', false],
    'PullRequest.head_branch': ['The branch with the changes.', 'feature/checkout'],
    'PullRequest.base_branch': ['The branch that it would be merged into.', 'main'],
    'PullRequest.from_fork': ['Whether its commits come from another repository.', false],
    'PullRequest.head_sha': [
      'Its newest commit; null if the forge reported only a short hash.',
      COMMIT,
    ],
    'PullRequest.approved_sha': ['The last approved commit of a fork; null: none.', null],
    'PullRequest.approved_by': ['Who approved that commit; null: none was.', null],
    'PullRequest.environment_id': ['Its environment; null: it has none.', 101],
    'PullRequest.waiting_for': [
      'Why it has no environment, or no new deployment; null: nothing.',
      null,
    ],
    'PullRequest.waiting_since': ['When the wait began; null: it waits for nothing.', null],
    'PullRequest.position': ['Its place on the waiting list, from 1; null: not on it.', null],
    'PullRequestApproved.task': [
      'The deployment of the approved commit; null: it waits for a place.',
    ],
    'PullRequestApprove.head_sha': [
      'The commit you reviewed, in full; refused if it is no longer the newest (409).',
      COMMIT,
    ],

    'RepositoryFacts.provider': ['The kind of forge; null: not known yet.', 'github'],
    'RepositoryFacts.external_id': [
      'The forge’s own id of the repository, which stays when it is renamed; null: not known yet.',
      '482910',
    ],
    'RepositoryFacts.renamed_to': [
      'Its new name at the forge, if `repo_url` has the former one; null: not renamed.',
      null,
    ],
    'RepositoryFacts.reachable': ['Whether the last read worked; null: never read.', true],
    'RepositoryFacts.checked_at': ['When it was last read; null: never.', '2026-11-15T09:10:00Z'],
    'RepositoryFacts.error': ['Why the last read failed; null: it worked.', null],
    'error.code': ['The reason, for programs.', 'auth_failed'],
    'error.message': ['The reason, for people.', 'The deploy key may not read the repository.'],
    'HostTokenFacts.set': ['Whether a token is stored.', true],
    'HostTokenFacts.checked_at': [
      'When the forge last accepted or refused it; null: never.',
      '2026-11-15T09:10:00Z',
    ],
    'HostTokenFacts.error': [
      'The forge’s answer when the token last failed; null: it works.',
      null,
    ],
    'HostToken.host': ['The kind of forge that accepted it; null: none did.', 'github'],
    'HostTokenPut.token': [
      'A token that may read the repository and set commit statuses. It is never returned.',
      'ghp_example',
    ],
    'RepositoryCheck.reachable': ['Whether the repository could be read.', true],
    'RepositoryCheck.default_branch': ['As the repository says; null: not readable.', 'main'],
    'RepositoryCheck.branch_count': ['Branches in it; null: not readable.', 8],
    'RepositoryCheck.service_file': [
      'The check of `.service.yml` on the default branch; null: not readable.',
    ],
    'service_file.found': ['Whether the file exists.', true],
    'service_file.recipes': [
      'The recipes that it has a section for; empty: it cannot be read.',
      ['docker'],
    ],
    'service_file.errors': ['Every problem in it; empty: it can be deployed.', []],
    'service_file.errors.line': ['The line of the problem, from 1.', 7],
    'service_file.errors.code': ['The problem, for programs.', 'unknown_key'],
    'service_file.errors.message': ['The problem, for people.', 'ports is not a key of a service.'],
    'RepositoryCheck.error': ['Why it could not be read; null: it could.', null],
    'ReconcileStarted.started_at': [
      'When the look at the repository began.',
      '2026-11-15T09:12:33Z',
    ],
  },
}
