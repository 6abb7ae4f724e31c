// The installation: health, set-up, documents, downloads, administration and the audit log.
import type { Glossary } from './entries.ts'

const TEXT_OK = 'ok\n'

export const INSTALLATION: Glossary = {
  operations: {
    getHealth: {
      says: 'Answers 200 if the control plane can serve, otherwise 503 with the same body. It also says whether the set-up is still to be done.',
    },
    postSetup: {
      says: 'Creates the first administrator and organization, once per installation, and shows a token. The console of the control plane prints the set-up token.',
      also: 'The set-up token is the proof.',
    },
    getOpenapiJson: {
      says: 'Answers this document, generated from the routes of the running release.',
      answer: { openapi: '3.1.0', info: { title: 'Berth', version: '1.15.0' }, paths: {} },
    },
    getDocs: {
      says: 'Shows this document as a page to read and search, without scripts.',
      answer: '<!doctype html><html lang="en">…</html>',
    },
    getDocsError: {
      says: 'Explains one error code: what it means and what to do next. `type` of every problem links here.',
      answer: '<!doctype html><html lang="en">…</html>',
    },
    getSchemasServiceV1Json: {
      says: 'Answers the JSON schema of `.service.yml`, for editors; browsers may read it from any page.',
      answer: { $schema: 'http://json-schema.org/draft-07/schema#', title: '.service.yml' },
    },
    getHealthLive: {
      says: 'Answers `ok` while the process runs; it looks at nothing else. Restart the process if it does not answer.',
      answer: TEXT_OK,
    },
    getHealthReady: {
      says: 'Answers `ok` if the database answers and the disk has space, otherwise 503 with the reason. Send no requests to it until it is ready.',
      answer: TEXT_OK,
    },
    getMetrics: {
      says: 'Answers figures of the control plane in the text format of Prometheus. 404 while the setting `BERTH_METRICS_TOKEN` is empty.',
      permission: {
        name: 'metrics_token',
        who: 'the token of the setting `BERTH_METRICS_TOKEN` as a bearer token',
      },
      answer:
        '# HELP berth_info Its version\n# TYPE berth_info gauge\nberth_info{version="1.15.0"} 1\n',
    },
    getInstallSh: {
      says: 'The script that a join command runs on a new server. The command checks its digest first.',
      answer: '#!/bin/sh\n…\n',
    },
    getInstallCliSh: {
      says: 'The script that installs the client on a person’s machine.',
      answer: '#!/bin/sh\n…\n',
    },
    getCli: {
      says: 'The client of this release as one file, or `SHA256SUMS` with its checksum. Downloads are limited per address and minute.',
      answer: '#!/usr/bin/env node\n…\n',
    },
    getInstall: {
      says: 'A packaged agent, as the install script fetches it. Downloads are limited per address and minute.',
      answer: '(a gzip archive)',
    },
    listAdminUsers: {
      says: 'Lists every account of the installation, page by page.',
      scope: 'read',
    },
    updateAdminUser: {
      says: 'Appoints or dismisses a platform administrator, disables or enables an account; absent fields stay as they are. Disabling ends its logins, tokens and SSH sessions at once. The last active administrator stays.',
      body: { disabled: true },
      answer: { disabled: true },
    },
    listAdminOrganizations: {
      says: 'Lists every organization with counts, page by page; nothing of its contents.',
      scope: 'read',
    },
    listAdminProjects: {
      says: 'Lists every project with its use and limit, page by page; nothing of its contents.',
      scope: 'read',
    },
    listAdminDataKeys: {
      says: 'Lists the keys that encrypt stored secrets, one for each organization and one for the installation: dates and owner, never the key.',
    },
    postAdminDataKeysRotate: {
      says: 'Creates a new key that encrypts from now on. Stored values are encrypted again in the background; the former key is deleted when none needs it.',
    },
    listOrganizationAudit: {
      says: 'Lists who changed what in an organization, when and from where, newest first, page by page. Values are never in it. Entries are kept for 400 days. A page of a filter that few entries match may hold fewer entries than asked for, or none; follow the `Link` header until it names no next page.',
    },
    listAdminAudit: {
      says: 'Lists the same for the whole installation, also what belongs to no organization.',
    },
  },
  fields: {
    'getDocsError.code': ['The `code` of a problem.', 'deployment_in_progress'],
    'getCli.name': ['The name of the file: the client `berth.cjs`, or `SHA256SUMS`.', 'berth.cjs'],
    'getInstall.name': [
      'The name of the package, as the install script has it.',
      'berth-agent-linux-x64.tar.gz',
    ],
    '/users/{id}': ['The account, by the `id` in the list.', '4'],
    '?actor': [
      'Who did it: `user:7`, or a kind alone: `user`, `agent`, `webhook`, `system`.',
      'user:4',
    ],
    '?verb': ['What was done: `project.create`, or `project.` for all of them.', 'project.'],
    '?subject': ['What it was done to: `environment:101`, or a kind alone.', 'environment:101'],

    'Health.status': [
      '`storage_full`: reads work, writes are refused. `unavailable`: the database does not answer.',
    ],
    'Health.version': ['The release of the control plane.', '1.15.0'],
    'Health.setup_required': [
      'True until `POST /api/setup` created the first administrator.',
      false,
    ],
    'Health.time': ['The control plane’s clock.', '2026-11-15T09:12:33Z'],

    'AdminUser.id': ['Names the account in paths.', 4],
    disabled: ['The account cannot sign in, and its tokens are refused.', false],
    organization_count: ['Organizations that the account is a member of.', 1],
    'AdminOrganization.id': ['Names the organization in paths.', 7],
    'AdminOrganization.name': ['As people see it.', 'Analytical Engines'],
    'AdminProject.id': ['Names the project in paths.', 12],
    'AdminProject.name': ['As people see it.', 'shop'],
    'AdminProject.organization': ['The organization that it belongs to.'],
    'AdminProject.status': ['`deleting`: its environments are being removed.', 'active'],

    'DataKey.id': ['Counts the keys of the installation.', 2],
    'DataKey.organization_id': ['Whose secrets it encrypts; null: the installation’s own.', 7],
    'DataKey.retired_at': [
      'Since then it encrypts nothing new; it is deleted when no value needs it. Null: in use.',
      null,
    ],
    'DataKeyRotation.organization_id': ['Whose key to replace; null: the installation’s own.', 7],

    'AuditEntry.id': ['Rises with every entry; pages go by it.', 20_481],
    'AuditEntry.organization_id': ['Where it happened; null: in no organization.', 7],
    'AuditEntry.actor': ['The person or program that did it.'],
    'actor.type': ['A person, an agent, a webhook, or Berth itself.', 'user'],
    'actor.id': ['The account, or the agent’s id as text; null: none.', 4],
    'actor.name': ['The name at that time; null: none.', 'Ada Lovelace'],
    'AuditEntry.token_id': ['The token that was used; null: a browser, or no person.', 58],
    'AuditEntry.address': ['Where the request came from; null: from Berth itself.', '203.0.113.7'],
    'AuditEntry.verb': ['What was done, as `kind.change`.', 'project.create'],
    'AuditEntry.subject': ['What it was done to.'],
    'subject.type': ['The kind of thing.', 'project'],
    'subject.id': ['Its id; text for agents, null: none.', 12],
    'subject.name': ['Its name at that time; null: none.', 'shop'],
    'AuditEntry.changes': [
      'Names and keys of what changed, never a secret value.',
      { name: 'shop' },
    ],
    'AuditEntry.request_id': [
      'The request in the log of the control plane; null: none.',
      'req_8f14e45f',
    ],
  },
}
