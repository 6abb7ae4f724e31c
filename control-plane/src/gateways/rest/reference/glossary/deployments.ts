// Tasks: deployments, actions, restarts, their logs, diagnostics and files.

import type { Glossary } from './entries.ts'
import { COMMIT, QUEUED } from './everywhere.ts'

export const DEPLOYMENTS: Glossary = {
  operations: {
    listEnvironmentTasks: {
      title: 'List tasks of an environment',
      says: 'Lists deployments, newest first, page by page; `type=all` adds removals, actions, restarts, backups and the rest. Phases are left out unless `include=phases` asks for them.',
    },
    createEnvironmentTask: {
      title: 'Start a deployment',
      says: 'Starts the same deployment as the Deploy button and answers its task; poll `GET /api/tasks/{id}` for the result. While a deployment is queued or running it is refused with 409 `deployment_in_progress` and that task’s id. An answer of 201 means that the task exists.',
      body: { message: 'try the new checkout' },
      answer: { ...QUEUED, trigger: 'api', delivery_id: null, message: 'try the new checkout' },
    },
    listProjectTasks: {
      title: 'List tasks of a project',
      says: 'Lists the tasks of all environments of a project, also removed ones, newest first, page by page. Filters are those of one environment.',
    },
    listEnvironmentActions: {
      says: 'Lists the actions of `.service.yml` as of the last successful deployment, with their schedules. Each deployment replaces the list.',
    },
    listEnvironmentActionRuns: {
      says: 'Lists the runs of one action’s schedule, newest first: `started` with its task, `skipped` or `missed` with the reason.',
    },
    createEnvironmentActionTask: {
      says: 'Starts an action on its server and answers the task. An action with a question needs `confirm: true`. At most five tasks of this kind wait in one environment.',
      body: { confirm: true, message: 'for the audit' },
      answer: {
        ...QUEUED,
        type: 'action',
        action: 'export-orders',
        trigger: 'api',
        delivery_id: null,
      },
    },
    postEnvironmentRestart: {
      says: 'Restarts what the last successful deployment runs, or one service of it. Version and variables stay those of that deployment.',
      body: { service: 'web' },
      answer: { ...QUEUED, type: 'restart', service: 'web', trigger: 'api', delivery_id: null },
    },
    postEnvironmentStop: {
      says: 'Stops what the last successful deployment runs, or one service of it. It stays stopped, also after a restart of the server, until it is started or deployed; its address answers 503.',
      body: { service: 'worker' },
      answer: { ...QUEUED, type: 'stop', service: 'worker', trigger: 'api', delivery_id: null },
    },
    postEnvironmentStart: {
      says: 'Starts what was stopped, or one service of it, in the version of the last successful deployment.',
      body: { service: 'worker' },
      answer: { ...QUEUED, type: 'start', service: 'worker', trigger: 'api', delivery_id: null },
    },
    getEnvironmentDiagnostics: {
      title: 'Explain the last failure',
      says: 'Explains the most recent failed deployment: the failed step, its output, and hints. It does so also when a later one succeeded (`recovered`). `status` is `none` if no deployment ever failed.',
    },
    getTaskDiagnostics: {
      title: 'Explain a task',
      says: 'Explains one task of any type and in any state: what became of it or what it waits for, the end of its output and, if it failed, the step, hints and what changed since the last success.',
      answer: { status: 'failed' },
    },
    getEnvironmentServiceLogs: {
      says: 'Sends what the services wrote, in order of time, one JSON document per line; values of variables are masked. The agent reads it on its server, which keeps 14 days and 500 MiB, so an offline server is an error. A line with `kind` names days that are no longer stored. Each read is in the audit log.',
      answer: {
        t: '2026-11-15T09:12:30.500000Z',
        s: 'out',
        service: 'web',
        task: 812,
        text: 'GET / 200',
      },
    },
    getTask: {
      says: 'Answers one task with its phases and steps. Poll it with `If-None-Match`, which costs no quota while nothing changed; `status` is final once it is `succeeded`, `failed` or `canceled`.',
    },
    postTaskCancel: {
      says: 'Asks to stop a queued or running task; a running one ends as `canceled` after its whole process tree was stopped. 409 `task_finished` if it has ended.',
      answer: {
        status: 'running',
        cancel_requested_at: '2026-11-15T09:13:10Z',
        cancel_reason: 'user',
        live_at: null,
        finished_at: null,
        duration_ms: null,
        log_complete: false,
      },
    },
    getTaskLog: {
      says: 'Answers the bytes that the programs wrote, with secrets masked: all of them, a `Range`, some lines, or one step. With `Accept: application/x-ndjson` each record is a JSON document. Logs are kept for 90 days.',
      answer: 'Step 1/6 : FROM node:24-slim\n',
    },
    listTaskArtifacts: {
      says: 'Lists the files that an action left on its server, one download link each. They are kept for 7 days unless `.service.yml` says otherwise.',
    },
    getTaskArtifactsContent: {
      says: 'Sends several files of one task in one answer: for each file a line `size={bytes} sha256={hex}`, then its bytes. If a later file is unavailable, the line `error={code} …` ends the answer.',
      answer:
        'size=6 sha256=e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\norders',
    },
    getArtifactContent: {
      says: 'Sends the bytes of one file, read from the server at that moment; `Range` and `If-Range` continue a download. An unavailable file is an error, never an empty file.',
      answer: 'id,total\n1,20.00\n',
    },
  },
  fields: {
    '?status': ['Only tasks with this status; repeat it for several.', 'failed'],
    '?type': ['Only tasks of this type; without it deployments, with `all` every type.', 'all'],
    '?trigger': ['Only tasks that this started.', 'webhook'],
    '?include': ['`phases` adds phases and steps to each task.'],
    'getEnvironmentDiagnostics.lines': [
      'Last lines of the failed step, 1 to 2,000; 200 if it is absent.',
      200,
    ],
    'getTaskDiagnostics.lines': [
      'Last lines of the shown step, 1 to 2,000; 200 if it is absent.',
      200,
    ],
    '?service': ['Only this service; repeat it for several, at most 50.', 'web'],
    '?tail': [
      'Last lines of each service; without it 1,000, or with `since` all of that time.',
      100,
    ],
    'getEnvironmentServiceLogs.follow': [
      '`true` keeps the answer open and sends what is written from now on; empty lines keep it alive.',
      'true',
    ],
    'getTaskLog.from_line': ['The first wanted line, from 1.', 10],
    'getTaskLog.lines': ['How many lines at most.', 50],
    'getTaskLog.ansi': ['`strip` removes escape sequences; `keep` is the default.'],
    'getTaskLog.phase': ['Only lines of this phase, by its name.', 'build'],
    'getTaskLog.step': ['Only lines of this step, by its name.', 'build:web'],
    'getTaskLog.follow': [
      '`true` keeps the answer open until the log is complete or your access ends; 20 at once.',
      'true',
    ],
    '/actions/{name}': ['The action, by its name in `.service.yml`.', 'export-orders'],
    '?ids': ['The files of this task in the wanted order, with commas.', '3301,3302'],
    '/artifacts/{id}': ['The file, by the `id` in the task’s list.', '3301'],

    'Task.id': ['Names it in paths.', 812],
    'Task.environment_id': ['The environment it works on.', 101],
    'Task.type': [
      '`destroy` removes the environment; the other types are named after what they do.',
      'deploy',
    ],
    'Task.reset': ['Whether this deployment deletes the data first.', false],
    'Task.status': [
      '`succeeded`, `failed` and `canceled` are final; they never change again.',
      'succeeded',
    ],
    trigger: [
      'What started it: a person’s tool, a webhook, a schedule, or Berth itself.',
      'webhook',
    ],
    'Task.delivery_id': ['The webhook delivery that led to it; null: none.', 5521],
    'Task.message': ['The note given at the start; null: none.', null],
    'Task.branch': ['The branch at that time.', 'feature/checkout'],
    'Task.commit_sha': ['The commit; null until the server fetched it.', COMMIT],
    'Task.commit_message': [
      'The first line of the commit’s message; null: not known.',
      'Faster checkout',
    ],
    'Task.action': ['The name of the action; null unless the type is `action`.', null],
    'Task.service': ['The one service of a restart, stop or start; null: all of them.', null],
    'Task.waiting_for': ['What it waits for; null: nothing.', null],
    'waiting_for.code': [
      '`server`: offline or paused. `environment`: another task ends first. `dispatch`: the server is busy. `build_slot`: other builds run.',
      'dispatch',
    ],
    'waiting_for.message': ['The reason, for people.', 'fra-1 is busy: place 2 in line.'],
    'waiting_for.since': ['When the wait began.', '2026-11-15T09:12:31Z'],
    'waiting_for.deadline': ['It fails if it still waits then; null: no limit.', null],
    'waiting_for.task_id': ['The task that must end first; null: none.', null],
    'waiting_for.position': ['Its place in line, from 1; null: there is no line.', 2],
    'Task.cancel_requested_at': ['When a stop was asked for; null: never.', null],
    'Task.cancel_reason': [
      '`superseded`: a newer commit replaced it. Null: no stop was asked for.',
      null,
    ],
    'Task.superseded_by': ['The task with the newer commit that replaced it; null: none.', null],
    'Task.failure': ['Why it failed; null: it did not.', null],
    'Task.warnings': ['What did not stop it but should be looked at.', []],
    'warnings.code': ['The warning, for programs.', 'lfs_skipped'],
    'warnings.message': [
      'The warning, for people.',
      'files of Git LFS are not fetched; their pointers are deployed.',
    ],
    'warnings.step': ['The step that it came from; null: none.', 'unpack'],
    'Task.unreachable_since': [
      'Its server has been silent since then while it runs; null: it reports.',
      null,
    ],
    'Task.late_outcome': [
      'The real result, if the server reported it after the task was given up; null otherwise.',
      null,
    ],
    'Task.started_at': ['When the server began; null while it is queued.', '2026-11-15T09:12:33Z'],
    'Task.live_at': ['When the new version first answered; null: not yet.', '2026-11-15T09:13:58Z'],
    'Task.duration_ms': [
      'Milliseconds from its start, or from the request if it never started, to its end; null before that.',
      89_000,
    ],
    'Task.url': ['Its page in the dashboard.', 'https://deploy.example.com/tasks/812'],
    log_url: ['Where its raw log is.', 'https://deploy.example.com/api/tasks/812/log'],
    'Task.log_lines': ['Lines that arrived so far.', 214],
    'Task.log_complete': ['Whether nothing more will arrive.', true],
    'Task.phases': ['Phases in order; absent in lists unless asked for.'],
    'Phase.name': ['For programs; stable for one recipe.', 'build'],
    'Phase.title': ['The phase as people read it.', 'Build'],
    'Phase.status': [
      'The worst of its finished steps, or the first of the open ones.',
      'succeeded',
    ],
    'Phase.duration_ms': ['Milliseconds of its steps together; null while one is open.', 41_200],
    'Phase.steps': ['Its steps, in the order of the plan.'],
    'Step.name': ['For programs; also the `step` of a log.', 'build:web'],
    'Step.title': ['The step as people read it.', 'Build web'],
    'Step.status': [
      '`skipped`: it was not needed. `pending` for good if an earlier step failed.',
      'succeeded',
    ],
    'Step.message': ['A sentence about its result; null: none.', null],
    'Step.duration_ms': ['Milliseconds that it took; null while it is open.', 41_200],
    first_line: ['Its first line in the log, from 1; null: it wrote nothing.', 12],
    last_line: ['Its last line in the log; null: it wrote nothing.', 187],
    exit_code: ['The exit code of its command; null: there was none.', 0],

    'TaskCreate.commit_sha': [
      'Deploys this commit and stays there until the next push; in full or its first 7 or more digits. Null: the newest of the branch.',
      COMMIT,
    ],
    'TaskCreate.no_cache': ['Builds images without the cache of earlier builds.', false],
    'TaskCreate.reuse_release': [
      'A rollback: if the server kept the release of this commit, it is not built again.',
      false,
    ],
    message: ['A note for the history, at most 500 characters.', 'try the new checkout'],
    'LifecycleRequest.service': ['One service; null or absent: all of them.', 'web'],
    'LifecycleRequest.message': ['A note for the history, at most 500 characters.', 'memory leak'],

    'Failure.code': [
      'The kind of failure, for programs: `step_failed`, `build_failed`, `config_missing`, `health_check_failed` and others.',
      'build_failed',
    ],
    'Failure.phase': ['The phase that failed; null: it never began.', 'build'],
    'Failure.step': ['The step that failed; null: it never began.', 'build:web'],
    'Failure.step_title': ['That step, for people.', 'Build web'],
    'Failure.message': ['What failed, in one sentence.', 'npm ci ended with exit code 1.'],
    'Failure.exit_code': ['The exit code of the failed command; null: no command failed.', 1],
    'Failure.line': ['The last line of that step in the log; null: it wrote nothing.', 187],
    'Failure.is_platform_check': [
      'Whether one of Berth’s own checks failed, such as a missing `.service.yml`.',
      false,
    ],

    'Diagnostics.status': [
      '`recovered`: a later deployment succeeded. `none`: none ever failed.',
      'failed',
    ],
    'Diagnostics.task': ['The failed deployment; null with `none`.'],
    'Diagnostics.task.id': ['Names the task in paths.', 812],
    'Diagnostics.task.status': ['It is always `failed`.', 'failed'],
    'Diagnostics.task.branch': ['The branch at that time.', 'feature/checkout'],
    'Diagnostics.task.url': ['Its page in the dashboard.', 'https://deploy.example.com/tasks/812'],
    'Diagnostics.failure': ['The failed step and its message; null with `none`.'],
    'Diagnostics.output': [
      'The last lines of the failed step without escape sequences, or the sentence of a check that wrote none.',
      'npm error code E404\nnpm error 404 Not Found',
    ],
    'Diagnostics.output_first_line': [
      'The line of the log that `output` begins with; null: none.',
      180,
    ],
    'Diagnostics.output_last_line': [
      'The line of the log that `output` ends with; null: none.',
      187,
    ],
    'Diagnostics.output_truncated': ['Whether the step wrote more than is shown.', true],
    'Diagnostics.output_complete': [
      'False if the server has not sent all of it yet; ask again.',
      true,
    ],
    'Diagnostics.hints': [
      'Sentences about the cause, from the output, the exit code and changes since the last success; empty: none is known.',
    ],
    'Hint.code': ['For programs; later releases add codes.', 'variables_changed'],
    'Hint.message': [
      'For people; show it also if the code is unknown.',
      'Changed since the last success (task 798): variable DATABASE_URL.',
    ],
    'Diagnostics.since_last_success': [
      'What differs from the last success before it; null: there was none.',
    ],
    'since_last_success.task_id': ['The task of that success.', 798],
    'since_last_success.commit_sha': [
      'Its commit; null: not known.',
      '9b2f6d10c4e8a7b3f5d2c1e0a9b8c7d6e5f40312',
    ],
    'since_last_success.service_file_changed': [
      'Whether `.service.yml` differs; null: one of the two never read it.',
      false,
    ],
    'since_last_success.variable_keys_changed': [
      'Keys that were set or unset in between, at most 200.',
      ['DATABASE_URL'],
    ],
    'Diagnostics.log_url': [
      'The raw log of the failed task; null with `none`.',
      'https://deploy.example.com/api/tasks/812/log',
    ],
    'Diagnostics.web_url': [
      'The failed line in the dashboard; null with `none`.',
      'https://deploy.example.com/tasks/812#L187',
    ],
    'Diagnostics.superseded_by': ['The newest success after it; null: none yet.', null],
    'superseded_by.id': ['Names that task in paths.', 820],
    'superseded_by.status': ['It is always `succeeded`.', 'succeeded'],

    'TaskDiagnostics.task_id': ['The explained task; `GET /api/tasks/{id}` has the rest.', 812],
    'TaskDiagnostics.type': ['What kind of task it is.', 'deploy'],
    'TaskDiagnostics.status': ['How it ended, or how far it is.', 'failed'],
    'TaskDiagnostics.summary': [
      'What became of it, or what it waits for, in a sentence or two.',
      'npm ci ended with exit code 1.',
    ],
    'TaskDiagnostics.step': [
      'The step whose output is shown: the failed one, the running one, else the last that wrote something; null: none did.',
    ],
    'TaskDiagnostics.step.id': ['For programs; also the `step` of a log.', 'build:web'],
    'TaskDiagnostics.step.title': ['The step as people read it.', 'Build web'],
    'TaskDiagnostics.step.phase': ['The phase that it belongs to, by its name.', 'build'],
    'TaskDiagnostics.failure': ['Why it failed; null: it did not.'],
    'TaskDiagnostics.output': [
      'The last lines of that step without escape sequences, or the sentence of a failure that wrote none; null: there is none.',
      'npm error code E404\nnpm error 404 Not Found',
    ],
    'TaskDiagnostics.output_first_line': [
      'The line of the log that `output` begins with; null: none.',
      180,
    ],
    'TaskDiagnostics.output_last_line': [
      'The line of the log that `output` ends with; null: none.',
      187,
    ],
    'TaskDiagnostics.output_truncated': ['Whether the step wrote more than is shown.', true],
    'TaskDiagnostics.output_complete': [
      'False while it runs, or if the server has not sent all of it yet; ask again.',
      true,
    ],
    'TaskDiagnostics.hints': [
      'Sentences about the cause of a failure; empty: none is known, or it did not fail.',
    ],
    'TaskDiagnostics.since_last_success': [
      'What differs from the last successful deployment before it; null: there was none, or it is no deployment.',
    ],
    'TaskDiagnostics.web_url': [
      'The end of its output in the dashboard.',
      'https://deploy.example.com/tasks/812#L187',
    ],
    'TaskDiagnostics.superseded_by': [
      'The newest successful deployment after it; null: none yet, or it is no deployment.',
      null,
    ],

    'getEnvironmentServiceLogs.t': ['When it was written.', '2026-11-15T09:12:30.500000Z'],
    'getEnvironmentServiceLogs.s': ['`out`: standard output. `err`: standard error.', 'out'],
    service: ['The service, as `.service.yml` names it.', 'web'],
    'getEnvironmentServiceLogs.task': ['The deployment that started the service.', 812],
    'getEnvironmentServiceLogs.text': [
      'The line without its end, with values of variables masked.',
      'GET / 200',
    ],
    'getEnvironmentServiceLogs.kind': ['Lines of the asked time are no longer stored.', 'gone'],
    'getEnvironmentServiceLogs.days': ['The days of those lines.', '2026-11-01 to 2026-11-02'],

    'LogLine.n': ['Its line, from 1.', 12],
    'LogLine.t': ['When the server read it.', '2026-11-15T09:12:40.120Z'],
    'LogLine.s': [
      'The source: output, errors, a terminal, Berth itself (`system`), or `gap` for lines that were lost.',
      'out',
    ],
    'LogLine.phase': ['The phase it belongs to; null: outside of steps.', 'build'],
    'LogLine.step': ['The step it belongs to; null: outside of steps.', 'build:web'],
    'LogLine.text': [
      'The line without its end, with secrets masked.',
      'Step 1/6 : FROM node:24-slim',
    ],

    'Action.name': ['Its name in `.service.yml`; starts it.', 'export-orders'],
    'Action.title': ['The action as people read it.', 'Export orders'],
    'Action.description': ['For people; null: none.', 'Writes all orders as CSV.'],
    'Action.service': ['The service whose container runs it; null with the manual recipe.', 'web'],
    'Action.confirm': [
      'The question to ask first; null: it starts without one.',
      'Export all orders?',
    ],
    'Action.timeout_seconds': ['It is stopped after this long.', 1_800],
    'Action.artifact_paths': ['Patterns of the files that it leaves.', ['out/*.csv']],
    'Action.enabled': ['Whether it can be started.', true],
    'Action.disabled_reason': ['Why it cannot be started; null: it can.', null],
    'Action.schedule': ['When it starts by itself; null: only people start it.'],
    'schedule.cron': ['Minute, hour, day of the month, month, day of the week.', '0 2 * * *'],
    'schedule.timezone': [
      'The time zone of `cron`; UTC if it is absent in a request.',
      'Europe/Berlin',
    ],
    'schedule.next_run_at': [
      'When it starts next; null while it is paused.',
      '2026-11-16T01:00:00Z',
    ],
    'schedule.paused_reason': ['Why it does not start now; null: it does.', null],
    'schedule.last_run': ['What became of the last due run; null: none was due yet.'],
    'Action.synced_at': ['When the deployment that defined it ended.', '2026-11-15T09:14:02Z'],
    'ActionStart.confirm': ['True answers the action’s question.', true],
    'ActionStart.message': ['A note for the history, at most 500 characters.', 'for the audit'],
    'ScheduledRun.outcome': [
      '`skipped`: an earlier run or too many tasks were in the way. `missed`: Berth, the server or the environment was not ready.',
      'started',
    ],
    'ScheduledRun.reason': ['Why it did not start; null: it did.', null],
    'ScheduledRun.due_at': [
      'When it was due, or the first of several in a row.',
      '2026-11-15T01:00:00Z',
    ],
    'ScheduledRun.last_due_at': [
      'The last of several in a row that did not start for the same reason; otherwise the same as `due_at`.',
      '2026-11-15T01:00:00Z',
    ],
    'ScheduledRun.runs': ['The number of due runs in this entry.', 1],
    'ScheduledRun.task_id': ['The task; null: it did not start.', 805],
    'ScheduledRun.task_status': ['How that task ended, or how far it is; null: none.', 'succeeded'],

    'Artifact.id': ['Names it in paths.', 3301],
    'Artifact.file_id': [
      'Its name on the server, for the SSH command `artifact`.',
      '7c9e6679-7425-40de-944b-e07fc1f90ae7',
    ],
    'Artifact.task_id': ['The task of the action that left it.', 812],
    'Artifact.path': ['Relative to the action’s folder.', 'out/orders.csv'],
    'Artifact.name': ['The last part of the path.', 'orders.csv'],
    'Artifact.size_bytes': ['Its length in bytes.', 1_048_576],
    'Artifact.collected_at': [
      'When it was collected, after the action ended.',
      '2026-11-15T09:14:02Z',
    ],
    'Artifact.expires_at': [
      'From then on the link answers `artifact_expired`.',
      '2026-11-22T09:14:02Z',
    ],
    'Artifact.url': [
      'Downloads it; needs a token.',
      'https://deploy.example.com/api/artifacts/3301/content',
    ],
  },
}
