-- What was sent to a webhook and stands in one state, in the order of the list.
CREATE INDEX webhook_delivery_state ON webhook_delivery (webhook_id, state, number);
