// Changes of how a user signs in need a recent sign-in: the dialog asks for the password or a passkey, then the change
// continues.
import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { api, problemOf, Refused, trpc } from '../../../api.ts'
import { ActButton } from '../../../components/act.tsx'
import { Dialog } from '../../../components/dialog.tsx'
import { Text } from '../../../components/forms/field.tsx'
import { Form, text } from '../../../components/forms/form.tsx'
import { Loaded } from '../../../components/states.tsx'
import { askPasskey } from '../../../passkeys.ts'

type PasskeyAnswer = Parameters<typeof api.factor.confirmByPasskey.mutate>[0]['response']

interface Confirmed {
  /** Runs the change; asks first if the sign-in is too old. */
  guard<T>(work: () => Promise<T>): Promise<T>
  /** Belongs into the page. */
  dialog: ReactNode
}

export function useConfirmed(): Confirmed {
  const [waiting, wait] = useState<{ go(): void; stop(): void }>()
  return {
    async guard(work) {
      try {
        return await work()
      } catch (error) {
        if (problemOf(error).code !== 'recent_sign_in_required') throw error
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const end = (then: () => void) => () => {
        wait(undefined)
        then()
      }
      const refuse = () => reject(new Refused('Nothing was changed.'))
      wait({ go: end(resolve), stop: end(refuse) })
      await promise
      return work()
    },
    dialog: waiting && <ConfirmDialog onDone={waiting.go} onClose={waiting.stop} />,
  }
}

function ConfirmDialog({ onDone, onClose }: { onDone(): void; onClose(): void }) {
  const factors = useQuery(trpc.factor.get.queryOptions())
  const session = useQuery(trpc.session.get.queryOptions())
  const provider = session.data?.provider
  return (
    <Dialog title="Confirm it's you" onClose={onClose}>
      <Loaded query={factors} what="Your account">
        {(have) => (
          <>
            {have.has_password && (
              <Form
                label="Confirm it is you"
                submit="Confirm"
                send={async (data) => {
                  await api.factor.confirm.mutate({ password: text(data, 'password') })
                  onDone()
                }}
              >
                <Text
                  label="Password"
                  name="password"
                  type="password"
                  autoComplete="current-password"
                  autoFocus
                  required
                />
              </Form>
            )}
            {have.passkeys.length > 0 && (
              <ActButton
                kind={have.has_password ? 'plain' : 'main'}
                act={async () => {
                  const options = await api.factor.confirmOptions.mutate()
                  const response = await askPasskey<PasskeyAnswer>(options)
                  await api.factor.confirmByPasskey.mutate({ response })
                  onDone()
                }}
              >
                Use a passkey
              </ActButton>
            )}
            {have.is_linked && provider && (
              <ActButton
                act={async () => {
                  const { url } = await api.session.beginProvider.mutate({ next: '/account' })
                  location.assign(url)
                }}
              >
                Sign in again with {provider.name}
              </ActButton>
            )}
          </>
        )}
      </Loaded>
    </Dialog>
  )
}
