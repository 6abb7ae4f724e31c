// Environments: settings, address, status.

import type { Glossary } from './entries.ts'
import { COMMIT, QUEUED } from './everywhere.ts'

export const ENVIRONMENTS: Glossary = {
  operations: {
    listProjectEnvironments: {
      title: 'List environments',
      says: 'Lists the environments of a project on one page: sticky ones first, then manual ones, then those of pull requests; the newest first in each group. The headers `Berth-Environment-Count` and `Berth-Environment-Limit` have used and limit.',
    },
    createProjectEnvironment: {
      title: 'Create an environment',
      says: 'Creates a manual environment; you become its owner. With `deploy` it is deployed at once and `task` is that deployment. Refused at the project’s limit (409 `environment_limit_reached`).',
      body: {
        identifier: 'staging',
        branch: 'main',
        title: 'Staging',
        protected: false,
        variables: { LOG_LEVEL: 'debug' },
        deploy: true,
      },
      answer: {
        identifier: 'staging',
        title: 'Staging',
        type: 'manual',
        branch: 'main',
        pull_request: null,
        domain: 'staging.shop.example.com',
        url: null,
        status: 'deploying',
        commit_sha: null,
        services: [],
        last_task: null,
        deployed: null,
      },
    },
    getEnvironment: {
      title: 'Read an environment',
      says: 'Answers one environment: status, address, lock, last deployment, and what you may do now. Poll it with `If-None-Match`, which costs no quota while nothing changed.',
    },
    getEnvironmentMetrics: {
      title: 'Read the metrics of an environment',
      says: 'Answers processor and memory, requests by status, and how long they took (from the access log of its server’s proxy), for the last hour, day or week. Requests that the proxy could not assign to one environment are in none.',
    },
    updateEnvironment: {
      title: 'Change an environment',
      says: 'Changes the given settings; absent fields stay as they are. Server, domain, recipe and branch take effect with the next deployment. While it is protected, title, server and domain cannot change: remove the protection first (409 `protection_active`).',
      body: { title: 'Checkout preview', auto_deploy: true, sticky: true },
    },
    deleteEnvironment: {
      title: 'Remove an environment',
      says: 'Stops it, removes it from its server and deletes its data; answers the task that does so. Refused while a deployment is queued or running.',
      answer: { ...QUEUED, type: 'destroy' },
      also: '`forget` also needs the permission `server:write`.',
    },
    postEnvironmentReset: {
      title: 'Reset an environment',
      says: 'Deletes its data (volumes, shared folder) and deploys it again; variables and settings stay. Not available while it is protected.',
      also: 'It also needs the permission `deploy`.',
      body: { confirm: 'pr-42' },
      answer: { ...QUEUED, reset: true },
    },
    setEnvironmentBasicAuth: {
      title: 'Set Basic Auth of an environment',
      says: 'Sets the user name and password that visitors need, inherits those of the project, or turns it off. It applies to requests within seconds, without a deployment.',
      body: { mode: 'own', username: 'preview', password: 'let-me-look' },
    },
    setEnvironmentWatch: {
      title: 'Watch an environment',
      says: 'Turns mails to you on or off: one when the environment is degraded, one when it has recovered.',
      body: { watching: true },
    },
  },
  fields: {
    'getEnvironmentMetrics.range': [
      '`hour`: one point per minute; `day`: one per ten minutes; `week`: one per hour. `hour` if it is absent.',
      'day',
    ],
    'EnvironmentMetrics.range': ['The range of the points.', 'hour'],
    step_seconds: ['Seconds between two points.', 60],
    'EnvironmentMetrics.latest': [
      'The last report of its server; null: none in the last five minutes.',
    ],
    'EnvironmentMetrics.latest.at': ['When the agent measured it.', '2026-11-15T09:14:00Z'],
    'EnvironmentMetrics.latest.cpu_percent': ['Percent of one processor: 200 is two of them.', 3.5],
    'EnvironmentMetrics.latest.memory_bytes': ['Memory that it uses, in bytes.', 268_435_456],
    'EnvironmentMetrics.latest.services': ['What each of its running services uses.'],
    'EnvironmentMetrics.totals': [
      'All requests of the range; null: its server keeps no access log (`BERTH_PROXY_ACCESS_LOG=off`, or an older agent).',
    ],
    'EnvironmentMetrics.totals.requests': [
      'Requests that the proxy answered; also those without a status of the four classes, as WebSockets.',
      1_204,
    ],
    'EnvironmentMetrics.points.requests': ['Requests that the proxy answered in this step.', 1_204],
    requests_per_second: ['Their average in the step.', 20.1],
    status_2xx: ['How many succeeded.', 1_180],
    status_3xx: ['How many were redirected, or not modified.', 12],
    status_4xx: ['How many were refused.', 10],
    status_5xx: ['How many failed.', 2],
    p50_ms: ['Half of them took at most this many milliseconds; null: no requests.', 18],
    p95_ms: ['95 of 100 took at most this many milliseconds; null: no requests.', 140],
    'EnvironmentMetrics.latest.services.name': ['As the service file names it.', 'web'],
    'EnvironmentMetrics.latest.services.cpu_percent': [
      'Percent of one processor: 200 is two of them.',
      2.5,
    ],
    'EnvironmentMetrics.latest.services.memory_bytes': ['Memory of its processes.', 134_217_728],
    'EnvironmentMetrics.points.at': ['When the step began.', '2026-11-15T09:14:00Z'],
    'EnvironmentMetrics.points.cpu_percent': [
      'The average in percent of one processor: 200 is two of them.',
      3.5,
    ],
    'EnvironmentMetrics.points.memory_bytes': ['The average in bytes.', 268_435_456],
    'EnvironmentMetrics.points': [
      'Every step of the range, oldest first. A value is null where nothing was measured.',
    ],
    'listProjectEnvironments.type': [
      'Only environments of pull requests, or only manual ones.',
      'manual',
    ],
    'listProjectEnvironments.branch': ['Only environments of exactly this branch.', 'main'],
    'listProjectEnvironments.identifier': [
      'Only the environment with exactly this identifier.',
      'pr-42',
    ],
    'deleteEnvironment.confirm': [
      'Repeats the identifier; required for a protected environment.',
      'pr-42',
    ],
    'deleteEnvironment.force': [
      '`true` skips the repository’s own destroy steps, for one that fails in them.',
      'false',
    ],
    'deleteEnvironment.forget': [
      '`true` does not wait for the server, for one that will not return. If it does, it stops what still runs.',
      'false',
    ],

    'Environment.id': ['Names it in paths.', 101],
    'Environment.identifier': [
      'Unique in its project, part of its address; `pr-{number}` for a pull request. At most 40 lower case letters, digits and dashes. It never changes.',
      'pr-42',
    ],
    'Environment.title': ['As people see it, at most 100 characters.', 'Faster checkout'],
    'Environment.type': [
      '`pull_request` ones come and go with their pull request.',
      'pull_request',
    ],
    'EnvironmentCreate.identifier': [
      'Unique in its project, part of its address: at most 40 lower case letters, digits and dashes; `pr-` and a number is reserved.',
      'staging',
    ],
    'EnvironmentCreate.branch': ['The branch to deploy and follow.', 'main'],
    'EnvironmentCreate.title': [
      'As people see it, at most 100 characters; the identifier if it is absent.',
      'Staging',
    ],
    'EnvironmentCreate.domain': [
      'Its host name; `{identifier}.{domain of the project}` if it is absent.',
      'staging.shop.example.com',
    ],
    'Environment.recipe': [
      'How it is deployed: `docker` or `manual`. In requests null means the project’s default.',
      'docker',
    ],
    'Environment.recipe_inherited': ['Whether the recipe is the project’s default.', true],
    'Environment.branch': ['The branch it follows.', 'feature/checkout'],
    'Environment.branch_missing': ['The repository no longer has this branch.', false],
    'Environment.commit_sha': ['The commit that runs; null before the first success.', COMMIT],
    'Environment.target_sha': [
      'The commit it should be at: the newest of its branch, or the chosen one. Null: not known yet.',
      COMMIT,
    ],
    'Environment.pinned': [
      'It stays at a commit that a person chose, until the next push or a deployment of its branch.',
      false,
    ],
    'Environment.pull_request': ['The pull request at the forge; null for a manual environment.'],
    'Environment.pull_request.number': ['Its number at the forge.', 42],
    'Environment.pull_request.url': [
      'Its page at the forge.',
      'https://github.com/engines/shop/pull/42',
    ],
    'Environment.pull_request.title': ['Its title at the forge.', 'Faster checkout'],
    'Environment.pull_request.author': ['The account at the forge that opened it.', 'ada'],
    'Environment.pull_request.state': [
      '`presumed_closed`: its branch is gone, and no event said why yet.',
      'open',
    ],
    'Environment.pull_request.draft': ['Whether the forge marks it as a draft.', false],
    'Environment.pull_request.base_branch': ['The branch that it would be merged into.', 'main'],
    'Environment.pull_request.from_fork': [
      'Whether its commits come from another repository.',
      false,
    ],
    'Environment.pull_request.head_sha': ['The newest commit of the pull request.', COMMIT],
    'Environment.pull_request.approval': [
      'Whether this commit may be deployed; only forks need an approval.',
      'not_needed',
    ],
    'Environment.url': [
      'The address of its first service with one; null before the first deployment.',
      'https://pr-42.shop.example.com',
    ],
    'Environment.domain': [
      'Its host name; `{identifier}.{domain of the project}` unless another one was set.',
      'pr-42.shop.example.com',
    ],
    'Environment.server': ['The server it is on.'],
    'Environment.server_id': [
      'One of the project’s servers; without it the project’s default. After a change, the old copy is removed once the next deployment succeeded.',
      3,
    ],
    'Environment.owner': ['The only person who may change it while it is protected.'],
    'Environment.owner_id': ['The account of the new owner: a member who may deploy.', 4],
    'Environment.protected': [
      'Never deployed automatically, and only its owner may deploy, change or delete it. Takes priority over `auto_deploy`.',
      false,
    ],
    'Environment.sticky': ['Listed before the others.', false],
    'Environment.auto_deploy': [
      'Whether a push redeploys it. A new one takes the project’s setting.',
      true,
    ],
    'Environment.basic_auth': ['What visitors need to see it.'],
    'EnvironmentCreate.basic_auth': [
      'What visitors need; without it, it is inherited.',
      { mode: 'inherit' },
    ],
    'EnvironmentCreate.basic_auth.mode': [
      '`own` with a name and a password, `inherit` from the project, or `off`.',
    ],
    'Environment.status': [
      '`new`: never deployed. `failed`: the first deployment failed. `degraded`: something runs differently than it was deployed. It keeps its status while the server is offline.',
      'running',
    ],
    'Environment.status_reason': [
      'Why it is degraded or stopped, in one sentence; null otherwise.',
      null,
    ],
    'Environment.stopped': ['Who stopped services, and which of them still are; null: none.', null],
    'Environment.stopped.by': ['The name of the person.', 'Ada Lovelace'],
    'Environment.stopped.services': ['Names of the stopped services.', ['worker']],
    'Environment.locked': [
      'A deployment or removal is queued or running; another one is refused until it ends.',
      false,
    ],
    'Environment.locked_by': ['The task that locks it; null: it is free.', null],
    'locked_by.trigger': ['What started that task.', 'webhook'],
    'locked_by.status': ['How far that task is.', 'running'],
    variables_changed: [
      'Variables changed since the last deployment; deploy to apply them.',
      false,
    ],
    'Environment.services': ['The services of the last success; empty before it.'],
    'services.name': ['As `.service.yml` names it.', 'web'],
    'services.url': ['Its address; null: it has none.', 'https://pr-42.shop.example.com'],
    'services.status': [
      'As its server last reported. `stopped`: by a person. `unmanaged`: Berth only routes to it.',
      'running',
    ],
    'services.restarts': ['How often it ended by itself and was started again.', 0],
    'services.image': [
      'The image that `.service.yml` names; null: it is built from the repository, or runs without a container.',
      null,
    ],
    'services.replicas': [
      'How many copies run; null: it has one, or they were not counted yet.',
      null,
    ],
    'replicas.wanted': ['Copies that `.service.yml` asks for.', 2],
    'replicas.running': ['Copies that run now.', 2],
    'Environment.last_task': ['The newest deployment or removal; null: none yet.'],
    'last_task.id': ['Names the task in paths.', 812],
    'last_task.status': ['How it ended, or how far it is.', 'succeeded'],
    'Environment.deployed': [
      'The newest successful deployment; null: none yet. `last_task` may be a later failure.',
    ],
    'deployed.commit_sha': ['The commit that it deployed.', COMMIT],
    'Environment.watching': [
      'You get a mail when it is degraded, and when it has recovered.',
      false,
    ],
    'EnvironmentWatch.watching': [
      'Whether you get a mail when it is degraded, and when it has recovered.',
      true,
    ],
    'Environment.may': [
      'What you may do now: `deploy`, `edit`, `delete`, `reset`, `change_variables`, `shell`, `act`. Empty for people who may only read.',
      ['deploy', 'edit', 'delete', 'reset', 'change_variables', 'shell', 'act'],
    ],
    'Environment.task': ['The first deployment, if it was asked for; null otherwise.'],
    'EnvironmentCreate.variables': [
      'Custom variables: keys with text values. Effective from the first deployment on; values are never returned.',
      { LOG_LEVEL: 'debug' },
    ],
    'EnvironmentCreate.deploy': ['Whether to deploy it now.', true],
    'ResetRequest.confirm': ['Repeats the identifier, because the data is deleted.', 'pr-42'],
  },
}
