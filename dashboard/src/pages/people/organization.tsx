// Settings of the organization, and the form for a new one.
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Check, Text } from '../../components/forms/field.tsx'
import { Form, isChecked, text } from '../../components/forms/form.tsx'
import { useSteadyKey } from '../../components/forms/unsaved.tsx'
import { Facts, Page, Section } from '../../components/page.tsx'
import { Loaded } from '../../components/states.tsx'
import { Time } from '../../components/time.tsx'
import { count } from '../../format.ts'
import { chooseOrganization, useOrganization } from '../../organization.ts'
import { Registries } from '../projects/registries.tsx'
import { BackupStorage } from './backup-storage.tsx'
import { Forges } from './forges.tsx'

export function OrganizationSettings() {
  const current = useOrganization()
  const query = useQuery(trpc.organization.list.queryOptions())
  return (
    <Page title="Organization settings" facts={current && <span>{current.name}</span>}>
      <Loaded query={query} what="Organizations">
        {({ organizations }) => {
          const o = organizations.find((one) => one.id === current?.id)
          return (
            <>
              {o && <One key={o.id} organization={o} />}
              <NewOne />
            </>
          )
        }}
      </Loaded>
    </Page>
  )
}

type Organization = Awaited<ReturnType<typeof api.organization.list.query>>['organizations'][number]

function One({ organization: o }: { organization: Organization }) {
  const [isAsking, ask] = useState(false)
  const [key, track] = useSteadyKey([o.name, o.slug, o.second_factor_required])
  const navigate = useNavigate()
  const mayWrite = o.permissions.includes('organization:write')
  const reason = mayWrite ? undefined : 'Only owners can change the organization.'
  const rest = [
    o.project_count > 0 ? count(o.project_count, 'project') : '',
    o.server_count > 0 ? count(o.server_count, 'server') : '',
  ].filter(Boolean)
  return (
    <>
      <Section title="General">
        <Facts
          of={[
            ['Members', o.member_count],
            ['Projects', o.project_count],
            ['Servers', o.server_count],
            ['Your role', o.role],
            ['Created', <Time key="t" at={o.created_at} />],
          ]}
        />
        <Form
          key={key}
          submit="Save changes"
          done="Saved."
          reason={reason}
          label="General"
          onDirty={track}
          send={(data) =>
            change(
              api.organization.update.mutate({
                organization_id: o.id,
                name: text(data, 'name'),
                slug: text(data, 'slug'),
                second_factor_required: isChecked(data, 'second_factor_required'),
              }),
            )
          }
        >
          <Text label="Name" name="name" defaultValue={o.name} maxLength={64} required />
          <Text
            label="Slug"
            name="slug"
            defaultValue={o.slug}
            hint="Used by the CLI: berth --org acme"
            required
          />
          <Check
            label="Require two-factor sign-in"
            name="second_factor_required"
            defaultChecked={o.second_factor_required}
            hint="Members without it can only open their account page until they set it up. Existing tokens continue to work."
          />
        </Form>
      </Section>
      <Forges
        organizationId={o.id}
        reason={
          o.permissions.includes('project:write')
            ? undefined
            : "You don't have permission to connect forges."
        }
      />
      <Registries
        owner={{ organization_id: o.id }}
        reason={
          o.permissions.includes('project:write')
            ? undefined
            : "You don't have permission to change registries."
        }
      />
      <BackupStorage
        organizationId={o.id}
        reason={
          o.permissions.includes('project:write')
            ? undefined
            : "You don't have permission to change the storage."
        }
      />
      {mayWrite && (
        <Section title="Delete organization" isDanger>
          <div className="row spread">
            <p>Delete its projects and servers first. This can't be undone.</p>
            <Button
              kind="danger"
              reason={rest.length > 0 ? `It still has ${rest.join(' and ')}.` : undefined}
              onClick={() => ask(true)}
            >
              Delete organization
            </Button>
          </div>
          {isAsking && (
            <Ask
              title={`Delete ${o.name}?`}
              submit="Delete organization"
              word={o.slug}
              onClose={() => ask(false)}
              send={async () => {
                await change(
                  api.organization.delete.mutate({ organization_id: o.id, confirm: o.slug }),
                )
                await navigate({ to: '/' })
              }}
              done="Deleted."
            />
          )}
        </Section>
      )}
    </>
  )
}

function NewOne() {
  const navigate = useNavigate()
  return (
    <Section title="New organization">
      <Form
        submit="Create organization"
        kind="plain"
        isRow
        label="New organization"
        send={async (data) => {
          const made = await change(api.organization.create.mutate({ name: text(data, 'name') }))
          chooseOrganization(made.id)
          await navigate({ to: '/' })
        }}
      >
        <Text label="Name" name="name" maxLength={64} required />
      </Form>
    </Section>
  )
}
