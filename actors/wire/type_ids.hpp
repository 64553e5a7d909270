// The single CAF type-id block: every message type and every atom of the project. CAF 0.17 identifies a message by name
// and a field by position, so entries must only be appended. An atom has at most ten characters.
#pragma once

#include "troupe/actors/wire/control_messages.hpp"
#include "troupe/actors/wire/inspect.hpp"
#include "troupe/actors/wire/lane.hpp"
#include "troupe/actors/wire/steering.hpp"

#include <caf/atom.hpp>
#include <caf/type_id.hpp>

CAF_BEGIN_TYPE_ID_BLOCK(troupe, first_custom_type_id)

CAF_ADD_TYPE_ID(troupe, (troupe::rank_id))
CAF_ADD_TYPE_ID(troupe, (troupe::stamp))
CAF_ADD_TYPE_ID(troupe, (troupe::key))
CAF_ADD_TYPE_ID(troupe, (troupe::part))
CAF_ADD_TYPE_ID(troupe, (troupe::outcome))
CAF_ADD_TYPE_ID(troupe, (troupe::snapshot))
CAF_ADD_TYPE_ID(troupe, (troupe::advance))
CAF_ADD_TYPE_ID(troupe, (troupe::advanced))
CAF_ADD_TYPE_ID(troupe, (troupe::milestone))
CAF_ADD_TYPE_ID(troupe, (troupe::evaluation))
CAF_ADD_TYPE_ID(troupe, (troupe::record))
CAF_ADD_TYPE_ID(troupe, (troupe::completion))
CAF_ADD_TYPE_ID(troupe, (troupe::holding))

CAF_ADD_ATOM(troupe, troupe, advance_atom, "advance")
CAF_ADD_ATOM(troupe, troupe, await_atom, "await")
CAF_ADD_ATOM(troupe, troupe, cancel_atom, "cancel")
CAF_ADD_ATOM(troupe, troupe, done_atom, "done")
CAF_ADD_ATOM(troupe, troupe, evaluate_atom, "evaluate")
CAF_ADD_ATOM(troupe, troupe, halt_atom, "halt")
CAF_ADD_ATOM(troupe, troupe, part_atom, "part")
CAF_ADD_ATOM(troupe, troupe, record_atom, "record")
CAF_ADD_ATOM(troupe, troupe, save_atom, "save")
CAF_ADD_ATOM(troupe, troupe, tick_atom, "tick")
CAF_ADD_ATOM(troupe, troupe, wire_atom, "wire")
CAF_ADD_ATOM(troupe, troupe, join_atom, "join")
CAF_ADD_ATOM(troupe, troupe, lost_atom, "lost")
CAF_ADD_ATOM(troupe, troupe, result_atom, "result")
CAF_ADD_ATOM(troupe, troupe, keep_atom, "keep")
CAF_ADD_TYPE_ID(troupe, (troupe::assignment))
CAF_ADD_TYPE_ID(troupe, (troupe::state_dict))
CAF_ADD_TYPE_ID(troupe, (troupe::run_state))
CAF_ADD_ATOM(troupe, troupe, state_atom, "state")
CAF_ADD_ATOM(troupe, troupe, restore_atom, "restore")
CAF_ADD_ATOM(troupe, troupe, checkpoint_atom, "checkpoint")
CAF_ADD_TYPE_ID(troupe, (troupe::digest_list))
CAF_ADD_ATOM(troupe, troupe, verify_atom, "verify")
CAF_ADD_TYPE_ID(troupe, (troupe::exchange_standing))
CAF_ADD_TYPE_ID(troupe, (troupe::reformation))
CAF_ADD_ATOM(troupe, troupe, pause_atom, "pause")
CAF_ADD_ATOM(troupe, troupe, reform_atom, "reform")
CAF_ADD_TYPE_ID(troupe, (troupe::control::proceed))
CAF_ADD_TYPE_ID(troupe, (troupe::control::assign))
CAF_ADD_TYPE_ID(troupe, (troupe::control::halt))
CAF_ADD_TYPE_ID(troupe, (troupe::control::finish))
CAF_ADD_TYPE_ID(troupe, (troupe::control::show))
CAF_ADD_TYPE_ID(troupe, (troupe::control::send_state))
CAF_ADD_TYPE_ID(troupe, (troupe::control::at_checkpoint))
CAF_ADD_TYPE_ID(troupe, (troupe::control::restored))
CAF_ADD_TYPE_ID(troupe, (troupe::control::verified))
CAF_ADD_TYPE_ID(troupe, (troupe::control::halted))
CAF_ADD_TYPE_ID(troupe, (troupe::control::progress))
CAF_ADD_TYPE_ID(troupe, (troupe::control::hold))
CAF_ADD_TYPE_ID(troupe, (troupe::control::stop_at))
CAF_ADD_TYPE_ID(troupe, (troupe::control::change_rate))
CAF_ADD_TYPE_ID(troupe, (troupe::control::held))
CAF_ADD_TYPE_ID(troupe, (troupe::control::stopped))
CAF_ADD_TYPE_ID(troupe, (troupe::steering_order))

CAF_END_TYPE_ID_BLOCK(troupe)
