// The bucket of an organization for backups of environments. Its secret key is written here, never shown.
import { useQuery } from '@tanstack/react-query'
import { api, change, trpc } from '../../api.ts'
import { ActButton } from '../../components/act.tsx'
import { Secret, Text } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Facts, Section } from '../../components/page.tsx'
import { Loaded } from '../../components/states.tsx'
import { Time } from '../../components/time.tsx'

interface Props {
  organizationId: number
  reason: string | undefined
}

export function BackupStorage({ organizationId, reason }: Props) {
  const query = useQuery(trpc.backup.storage.queryOptions({ organization_id: organizationId }))
  return (
    <Section title="Backup storage">
      <p className="muted">
        S3-compatible storage for backups of environments, encrypted on the server.
      </p>
      <Loaded query={query} what="The storage" lines={1}>
        {({ storage }) => <One organizationId={organizationId} reason={reason} storage={storage} />}
      </Loaded>
    </Section>
  )
}

type Storage = Awaited<ReturnType<typeof api.backup.storage.query>>['storage']

function One({ organizationId, reason, storage: s }: Props & { storage: Storage }) {
  const send = (data: FormData) =>
    change(
      api.backup.setStorage.mutate({
        organization_id: organizationId,
        endpoint: text(data, 'endpoint'),
        bucket: text(data, 'bucket'),
        prefix: text(data, 'prefix'),
        region: text(data, 'region') || 'us-east-1',
        access_key_id: text(data, 'access_key_id'),
        secret_access_key: text(data, 'secret_access_key'),
      }),
    )
  return (
    <>
      {s && (
        <Facts
          of={[
            ['Encrypted for', <code key="r">{s.recipient}</code>],
            ['Updated', <Time key="t" at={s.updated_at} />],
          ]}
        />
      )}
      <Form
        submit="Save storage"
        kind="plain"
        done="Saved."
        reason={reason}
        label="Storage"
        send={send}
      >
        <Text
          label="Endpoint"
          name="endpoint"
          defaultValue={s?.endpoint ?? ''}
          hint="Such as https://s3.eu-central-1.amazonaws.com"
          required
        />
        <Text label="Bucket" name="bucket" defaultValue={s?.bucket ?? ''} required />
        <Text label="Folder" name="prefix" defaultValue={s?.prefix ?? ''} hint="Optional." />
        <Text label="Region" name="region" defaultValue={s?.region ?? 'us-east-1'} />
        <Text
          label="Access key"
          name="access_key_id"
          defaultValue={s?.access_key_id ?? ''}
          required
        />
        <Secret label="Secret key" name="secret_access_key" required />
      </Form>
      {s && (
        <ActButton
          small
          reason={reason}
          act={() => change(api.backup.removeStorage.mutate({ organization_id: organizationId }))}
          done="Removed."
        >
          Remove storage
        </ActButton>
      )}
    </>
  )
}
