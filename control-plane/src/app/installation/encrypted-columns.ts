// Every column with encrypted values, with its label and the place each value is bound to. Values of a column that is
// missing here would become unreadable with their retired data key; `test/specs/data-keys.test.ts` compares this list
// with the database.
import type { Label, Place } from '../../keys/secret-store.ts'
import { sshAuthorityPlace } from '../../keys/ssh-signers.ts'
import type { SealedColumn, SealedRow } from '../../store/installation/sealed-values.ts'
import { storageIdentityPlace, storageSecretPlace } from '../environments/backup-storage.ts'
import {
  fingerprintPlace,
  projectVariablePlace,
  variablePlace,
} from '../environments/sealed-variables.ts'
import { connectionPlace } from '../forges/connections/opening.ts'
import { forgeTokenPlace } from '../forges/forge-tokens.ts'
import { webhookSecretPlace } from '../forges/webhook-secrets.ts'
import { channelPlace } from '../notices/secrets.ts'
import { totpPlace } from '../people/factors/authenticator-app.ts'
import { mailPlace } from '../people/mail.ts'
import { secretPlace } from '../people/one-time-secrets.ts'
import { authPlace } from '../projects/basic-auth.ts'
import { deployKeyPlace } from '../projects/projects.ts'
import { registryPlace } from '../projects/registries.ts'
import { CA_PLACE, COOKIE_PLACE } from './setup.ts'

export interface EncryptedColumn extends SealedColumn {
  label: Label
  placeOf: (row: SealedRow, organizationId: number) => Place
}

const idOf = (row: SealedRow): number => Number(row.id)
const project = { table: 'projects', key: ['id'], owner: 'organization' } as const
const webhookSecret = (
  kind: 'current' | 'previous' | 'legacy',
  column: string,
): EncryptedColumn => ({
  ...project,
  column,
  label: 'webhook-secret',
  placeOf: (row, organizationId) => webhookSecretPlace({ id: idOf(row), organizationId }, kind),
})

/** Every column with encrypted values of an organization. */
const OF_ORGANIZATIONS: readonly EncryptedColumn[] = [
  {
    table: 'variables',
    column: 'sealed',
    key: ['environment_id', 'key'],
    owner: 'environment',
    label: 'variable',
    placeOf: (row, organizationId) =>
      variablePlace({ id: Number(row.environmentId), organizationId }, String(row.key)),
  },
  {
    table: 'project_variables',
    column: 'sealed',
    key: ['project_id', 'level', 'key'],
    owner: 'project',
    label: 'variable',
    placeOf: (row, organizationId) =>
      projectVariablePlace(
        { id: Number(row.projectId), organizationId },
        String(row.level),
        String(row.key),
      ),
  },
  {
    table: 'organization_keys',
    column: 'wrapped',
    key: ['id'],
    owner: 'organization',
    purpose: 'fingerprint',
    label: 'variable',
    placeOf: (_row, organizationId) => fingerprintPlace(organizationId),
  },
  {
    ...project,
    column: 'deploy_key_sealed',
    label: 'deploy-key',
    placeOf: (row, organizationId) => deployKeyPlace({ id: idOf(row), organizationId }),
  },
  webhookSecret('current', 'webhook_secret_sealed'),
  webhookSecret('previous', 'previous_webhook_secret_sealed'),
  webhookSecret('legacy', 'legacy_webhook_secret_sealed'),
  {
    ...project,
    column: 'host_token_sealed',
    more: ['repo_url'],
    label: 'host-token',
    placeOf: (row, organizationId) =>
      forgeTokenPlace({ id: idOf(row), organizationId, repoUrl: String(row.repoUrl) }),
  },
  {
    table: 'forge_connections',
    column: 'token_sealed',
    key: ['id'],
    more: ['api_url'],
    owner: 'organization',
    label: 'host-token',
    placeOf: (row, organizationId) =>
      connectionPlace({ id: idOf(row), organizationId, apiUrl: String(row.apiUrl) }),
  },
  {
    table: 'registries',
    column: 'sealed',
    key: ['organization_id', 'project_id', 'host'],
    more: ['username'],
    owner: 'organization',
    label: 'registry',
    placeOf: (row, organizationId) =>
      registryPlace({
        organizationId,
        projectId: Number(row.projectId),
        host: String(row.host),
        username: String(row.username),
      }),
  },
  {
    table: 'backup_storages',
    column: 'secret_sealed',
    key: ['organization_id'],
    more: ['endpoint', 'bucket', 'access_key_id'],
    owner: 'organization',
    label: 'backup-storage',
    placeOf: (row, organizationId) =>
      storageSecretPlace({
        organizationId,
        endpoint: String(row.endpoint),
        bucket: String(row.bucket),
        accessKeyId: String(row.accessKeyId),
      }),
  },
  {
    table: 'backup_storages',
    column: 'identity_sealed',
    key: ['organization_id'],
    more: ['recipient'],
    owner: 'organization',
    label: 'backup-storage',
    placeOf: (row, organizationId) =>
      storageIdentityPlace({ organizationId, recipient: String(row.recipient) }),
  },
  ...(['url', 'secret', 'previous'] as const).map(
    (which): EncryptedColumn => ({
      table: 'notice_channels',
      column: channelPlace({ id: 0, organizationId: 0 }, which).column,
      key: ['id'],
      owner: 'organization',
      label: 'channel',
      placeOf: (row, organizationId) => channelPlace({ id: idOf(row), organizationId }, which),
    }),
  ),
  ...(['projects', 'environments'] as const).map(
    (table): EncryptedColumn => ({
      ...project,
      table,
      column: 'basic_auth_hash',
      label: 'basic-auth',
      placeOf: (row, organizationId) => authPlace(table, { id: idOf(row), organizationId }),
    }),
  ),
]

const installation = { key: ['id'], owner: 'installation' } as const

/** Every column with encrypted values of the installation itself. */
const OF_INSTALLATION: readonly EncryptedColumn[] = [
  {
    ...installation,
    table: 'mails',
    column: 'sealed',
    label: 'mail',
    placeOf: (row) => mailPlace(idOf(row)),
  },
  {
    table: 'totp_factors',
    column: 'secret_sealed',
    key: ['user_id'],
    owner: 'installation',
    label: 'totp',
    placeOf: (row) => totpPlace(Number(row.userId)),
  },
  {
    ...installation,
    table: 'one_time_secrets',
    column: 'sealed',
    label: 'one-time',
    placeOf: (row) => secretPlace(String(row.id)),
  },
  {
    ...installation,
    table: 'ssh_authorities',
    column: 'key_sealed',
    more: ['kind', 'fingerprint'],
    label: 'ca',
    placeOf: (row) =>
      sshAuthorityPlace({ kind: String(row.kind), fingerprint: String(row.fingerprint) }),
  },
  {
    ...installation,
    table: 'installation',
    column: 'ca_key_sealed',
    label: 'ca',
    placeOf: () => CA_PLACE,
  },
  {
    ...installation,
    table: 'installation',
    column: 'cookie_secret_sealed',
    label: 'cookie',
    placeOf: () => COOKIE_PLACE,
  },
]

export const kindsOf = (organizationId: number | null): readonly EncryptedColumn[] =>
  organizationId === null ? OF_INSTALLATION : OF_ORGANIZATIONS
