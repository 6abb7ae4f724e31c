// Connections of an organization to forges. Tokens are written here, never shown.
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { ActButton } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Secret } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Section } from '../../components/page.tsx'
import { Loaded, Note } from '../../components/states.tsx'
import { Cell, Row, Table } from '../../components/table.tsx'
import { Time } from '../../components/time.tsx'
import { nameOfKind, TokenFields, tokenOf } from '../projects/forge.tsx'

type Connection = Awaited<ReturnType<typeof api.forge.list.query>>['connections'][number]

export function Forges({
  organizationId,
  reason,
}: {
  organizationId: number
  reason: string | undefined
}) {
  const organization_id = organizationId
  const query = useQuery(trpc.forge.list.queryOptions({ organization_id }))
  const [renewing, renew] = useState<Connection>()
  return (
    <Section title="Forges">
      <p className="muted">
        Connect a forge to pick repositories and set up keys and webhooks. Every project of the
        organization can use it.
      </p>
      <Loaded query={query} what="Forges" lines={1}>
        {({ connections }) =>
          connections.length === 0 ? (
            <p>No forges yet.</p>
          ) : (
            <Table label="Forges" head={['Forge', 'Account', 'Projects', 'Connected', 'Change']}>
              {connections.map((one) => (
                <Row key={one.id}>
                  <Cell of="Forge">
                    <span>
                      {nameOfKind(one.provider)}
                      <br />
                      <span className="muted small">{one.api_url}</span>
                      {one.error && <Note kind="bad">{one.error}</Note>}
                    </span>
                  </Cell>
                  <Cell of="Account" plain>
                    {one.account || 'Unknown'}
                  </Cell>
                  <Cell of="Projects">{one.project_count}</Cell>
                  <Cell of="Connected">
                    <span>
                      <Time at={one.created_at} /> by {one.created_by.name}
                    </span>
                  </Cell>
                  <Cell of="Change" end>
                    <div className="row">
                      <Button small reason={reason} onClick={() => renew(one)}>
                        Replace token
                      </Button>
                      <ActButton
                        small
                        reason={reason}
                        label={`Remove ${nameOfKind(one.provider)} ${one.account}`}
                        act={() => change(api.forge.remove.mutate({ connection_id: one.id }))}
                        done="Removed."
                      >
                        Remove
                      </ActButton>
                    </div>
                  </Cell>
                </Row>
              ))}
            </Table>
          )
        }
      </Loaded>
      <Form
        submit="Connect"
        kind="plain"
        done="Connected."
        clears
        reason={reason}
        label="Connect a forge"
        send={(data) => change(api.forge.connect.mutate({ organization_id, ...tokenOf(data) }))}
      >
        <TokenFields needsPlace />
      </Form>
      {renewing && (
        <Dialog title="Replace token" onClose={() => renew(undefined)}>
          <Form
            submit="Save changes"
            done="Token replaced."
            label="New token"
            send={async (data) => {
              const asked = { connection_id: renewing.id, token: text(data, 'token').trim() }
              await change(api.forge.change.mutate(asked))
              renew(undefined)
            }}
          >
            <Secret label="Token" name="token" required />
          </Form>
        </Dialog>
      )}
    </Section>
  )
}
